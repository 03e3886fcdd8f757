"""Bits per character over kept weights of a small transformer: python benchmarks/circuits.py TEXT.

The network is that of examples/circuits. It is trained from the start with gates, with gradual pruning by magnitude,
and dense with as few weights. Magnitude is ranked in each layer (Zhu and Gupta, 2017) or over the whole network. All
ways have the same steps, learning rate and batches. What has ended is not trained again while the settings are the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from gradual_cut import GradualCut
from torch import Tensor, nn

import sparsegate as sg
from sparsegate.bench import machine, versions

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples" / "circuits"))
from train import LENGTH, Transformer, bits, loss_of, read  # noqa: E402

WAYS = ("gates", "magnitude by layer", "magnitude", "small dense")


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    path: Path = options.out
    record: dict[str, Any] = {
        "title": "Bits per character of unseen text over kept weights, by four ways",
        "command": words(options),
        "text": options.text.name,
        "machine": machine(),
        "versions": versions("torch"),
        "small dense": "the narrowest network of the same kind with at least as many weights",
        "rows": known(path, words(options)),
    }
    done = {(row["way"], row["keep"], row["seed"]) for row in record["rows"]}
    jobs = [("dense", 1.0)] + [(way, keep) for keep in options.keep for way in WAYS]
    for seed in options.seeds:
        for way, keep in jobs:
            if (way, keep, seed) not in done:
                row = {"way": way, "keep": keep, "seed": seed, **trained(way, keep, seed, options)}
                print(row, flush=True)
                record["rows"].append(row)
                record["summary"] = summary(record["rows"])
                path.write_text(json.dumps(record, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="a text, such as tiny Shakespeare")
    parser.add_argument("--keep", type=float, nargs="+", default=[0.1, 0.01, 0.001])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "circuits.json")
    return parser.parse_args()


def words(options: argparse.Namespace) -> str:
    """The command that makes the file."""
    keep, seeds = (" ".join(map(str, each)) for each in (options.keep, options.seeds))
    return (
        f"python benchmarks/circuits.py TEXT --keep {keep} --seeds {seeds} "
        f"--steps {options.steps} --batch {options.batch} --lr {options.lr:g} "
        f"--threads {options.threads}"
    )


def known(path: Path, command: str) -> list[dict[str, Any]]:
    """The rows that an earlier call of the same command has measured."""
    before = json.loads(path.read_text()) if path.exists() else {}
    return before["rows"] if before.get("command") == command else []


def trained(way: str, keep: float, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The weights that are left, and the bits per character of unseen text."""
    torch.manual_seed(seed)
    letters, seen, unseen = read(options.text)
    width = width_for(letters, keep) if way == "small dense" else None
    model = Transformer(letters, width, 1) if width else Transformer(letters)
    batches = torch.Generator().manual_seed(seed)
    settings = {"lr": options.lr, "clip": 1.0}
    cut: GradualCut | None = None
    optimizer: torch.optim.Optimizer
    if way == "gates":
        target = sg.Target(keep=keep)
        optimizer = sg.GatedAdamW(sg.gate(model), target=target, steps=options.steps, **settings)
    else:
        optimizer = torch.optim.AdamW(groups(model), lr=options.lr)
        if way.startswith("magnitude"):
            by_layer = way == "magnitude by layer"
            cut = GradualCut(matrices(model), keep, options.steps, by_layer=by_layer)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    for step in range(1, options.steps + 1):
        begins = torch.randint(len(seen) - LENGTH - 1, (options.batch,), generator=batches)
        loss = loss_of(model, torch.stack([seen[at : at + LENGTH + 1] for at in begins]))
        optimizer.zero_grad()
        loss.backward()
        if way != "gates":
            nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        optimizer.step()
        scheduler.step()
        if cut is not None:
            cut.after_step(step)
    if way == "gates":
        model = sg.finish(model)
    weights = sum(int(each.count_nonzero()) for each in matrices(model))
    return {"weights": weights, "width": width or 64, "bits": round(bits(model, unseen), 4)}


def matrices(model: nn.Module) -> list[Tensor]:
    """The weights that gates are put on: all but norms and biases."""
    return [each for each in model.parameters() if each.ndim > 1]


def groups(model: nn.Module) -> list[dict[str, Any]]:
    """The groups of GatedAdamW: only matrices decay."""
    others = [each for each in model.parameters() if each.ndim < 2]
    return [
        {"params": matrices(model), "weight_decay": 0.01},
        {"params": others, "weight_decay": 0.0},
    ]


def width_for(letters: str, keep: float) -> int:
    """The narrowest network that has at least so large a part of the whole one's weights."""
    wanted = keep * sum(each.numel() for each in matrices(Transformer(letters)))
    width = 1
    while sum(each.numel() for each in matrices(Transformer(letters, width, 1))) < wanted:
        width += 1
    return width


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean of the bits over the seeds, and their spread."""
    found: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["way"], row["keep"]), []).append(row)
    return [
        {
            "way": way,
            "keep": keep,
            "weights": statistics.mean(row["weights"] for row in some),
            "bits": round(statistics.mean(row["bits"] for row in some), 3),
            "spread": round(statistics.stdev(row["bits"] for row in some), 3) if some[1:] else None,
            "seeds": len(some),
        }
        for (way, keep), some in found.items()
    ]


if __name__ == "__main__":
    main()
