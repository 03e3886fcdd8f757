"""Trains methods at seven rates on small pairs of network and data: python benchmarks/pairs.py PAIR DATA.

All runs of a pair have the same epochs, batches and learning rate; methods have their defaults. Runs
that are in the record are not made again. Scores are chosen by the validation split and shown of the
test split. Without PAIR, writes the table and the picture of what the record has:

    python benchmarks/pairs.py spoken-digits ../data/spoken_digits/recordings.tar.xz
    python benchmarks/pairs.py
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pair_tasks import TASKS, Splits, Task
from torch import Tensor, nn

from sparsegate.bench import save_plot
from sparsegate.text_table import Row, markdown
from sparsegate_lab.method import Judge, Method, Training
from sparsegate_lab.methods import Dense
from sparsegate_lab.recipes import CONTESTANTS
from sparsegate_lab.study import Summary
from sparsegate_lab.train import count_layers, machine, versions
from sparsegate_runtime.atomic import write_atomically

ROOT = Path(__file__).parent.parent
KEEPS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003)
DENSE, OURS = "dense", "learned_gates"
METHODS = (
    OURS,
    "gradual_magnitude",
    "gradual_magnitude-lamp",
    "magnitude",
    "st3",
    "feather",
    "rigl",
)
TABLE = ROOT / "docs" / "notebook" / "pairs.md"


@dataclass(frozen=True)
class Adam(Training):
    """Settings of a run whose weights are trained by AdamW."""

    def sgd(self, parameters: Iterable[nn.Parameter]) -> Any:
        """AdamW, which methods call by the name of the usual optimizer."""
        return torch.optim.AdamW(list(parameters), lr=self.lr, weight_decay=0.01)


@dataclass(frozen=True)
class Scores(Judge):
    """Scores of a network on the splits of a task."""

    task: Task
    splits: Splits
    model: nn.Module

    def accuracy(self) -> float:
        """Accuracy on the validation split, for methods that ask."""
        return self.of(self.model, "validation")

    def images(self, count: int) -> Tensor:
        """The first training inputs."""
        return self.splits["train"][0][:count]

    @torch.no_grad()
    def of(self, model: nn.Module, split: str) -> float:
        """Accuracy in per cent, or bits per label."""
        was_training = model.training
        model.eval()
        found = 0.0
        inputs, labels = self.splits[split]
        for some, wanted in zip(inputs.split(500), labels.split(500), strict=True):
            logits = model(some)
            if self.task.bits:
                found += float(self.task.loss(logits, wanted)) * wanted.numel() / math.log(2)
            else:
                found += 100.0 * int((logits.argmax(-1) == wanted).sum())
        model.train(was_training)
        return found / labels.numel()


def main() -> None:
    options = parse()
    record = json.loads(options.out.read_text()) if options.out.exists() else {"pairs": {}}
    if options.pair:
        extend(record, options)
    write_table(record)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", nargs="?", choices=list(TASKS))
    parser.add_argument("data", nargs="?", type=Path, help="a file or folder, as the pair needs")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(CONTESTANTS))
    parser.add_argument("--keeps", nargs="+", type=float, default=list(KEEPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "pairs.json")
    options = parser.parse_args()
    if options.pair and options.data is None:
        parser.error(f"{options.pair} needs DATA")
    return options


def extend(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Makes the runs that the record lacks, and writes it after each."""
    task, splits = TASKS[options.pair], TASKS[options.pair].read(options.data)
    settings = {
        name: getattr(task, name) for name in ("about", "epochs", "lr", "adam", "batch", "bits")
    }
    pair = record["pairs"].setdefault(options.pair, {**settings, "rows": []})
    if any(pair[name] != value for name, value in settings.items()):
        raise SystemExit(f"{options.pair} has other settings in {options.out}; delete it there")
    record |= {
        "title": "Methods at seven rates on small pairs of network and data, with equal epochs",
        "command": "python benchmarks/pairs.py PAIR DATA",
        "machine": machine(),
        "versions": versions(),
    }
    for name, keep, seed in wanted(options):
        method = Dense() if name == DENSE else CONTESTANTS[name](keep)
        row = {"method": name, "keep": keep, "seed": seed, "settings": repr(method)}
        if any(row.items() <= each.items() for each in pair["rows"]):
            continue
        row |= trained(task, splits, method, seed)
        # Runs with other settings of the same method are replaced.
        same = ("method", "keep", "seed")
        pair["rows"] = [
            each for each in pair["rows"] if any(each[part] != row[part] for part in same)
        ]
        pair["rows"].append(row)
        print({part: row[part] for part in row if part != "settings"}, flush=True)
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, float, int]]:
    """Every run: whole seeds first, so that a record that is cut off has whole rows."""
    for seed in options.seeds:
        yield DENSE, 1.0, seed
        for keep in options.keeps:
            for name in options.methods:
                yield name, keep, seed


def trained(task: Task, splits: Splits, method: Method, seed: int) -> dict[str, Any]:
    """Trains and measures one network."""
    torch.manual_seed(seed)
    began, (inputs, labels) = time.process_time(), splits["train"]
    model = method.prepare(task.make())
    per_epoch = len(inputs) // task.batch
    steps, scores = task.epochs * per_epoch, Scores(task, splits, model)
    kind = Adam if task.adam else Training
    optimizers = method.optimizers(model, kind(task.lr, 0.9, 1e-4, steps, scores))
    order, step = torch.Generator().manual_seed(seed), 0
    for _ in range(task.epochs):
        mixed = torch.randperm(len(inputs), generator=order)[: per_epoch * task.batch]
        for batch in mixed.split(task.batch):
            for group in optimizers[0].param_groups:
                group["lr"] = task.lr * min(1.0, 20 * (step + 1) / steps)
            method.before_step(model, optimizers, step / steps)
            model.train()
            loss = task.loss(model(inputs[batch]), labels[batch])
            term = method.loss_term(model, step / steps)
            (loss if term is None else loss + term).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            method.after_step(model, step / steps)
            step += 1
        method.after_epoch(model, scores, step / steps)
    model = method.finish(model)
    layers = count_layers(model)
    return {
        "kept": sum(layer.kept for layer in layers),
        "total": sum(layer.total for layer in layers),
        **{split: round(scores.of(model, split), 4) for split in ("validation", "test")},
        "seconds": round(time.process_time() - began, 1),
    }


def write_table(record: dict[str, Any]) -> None:
    """Writes the page of the notebook, and the pictures next to the record."""
    text = [
        "# Pairs of network and data: observations",
        "",
        "Made by [`benchmarks/pairs.py`](../../benchmarks/pairs.py) from",
        "[pairs.json](../../results/pairs.json). Every method has its default settings, the same epochs",
        "and the same batches; networks and data are small, so that many runs fit on two cores. Cells",
        "are of the test split: means over seeds (their number in the first row), with the spread. A star",
        "marks the best method by validation. Networks of the wrong size have their share in brackets.",
    ]
    for name, pair in record["pairs"].items():
        unit = "bits per character, less is better" if pair["bits"] else "accuracy in per cent"
        about = f"{pair['about']}. {pair['epochs']} epochs; {unit}."
        text += ["", f"## {name}", "", about, "", markdown(table(pair))]
        save_plot(
            lambda figure, pair=pair: draw(figure, pair),  # type: ignore[misc]
            ROOT / "results" / f"pairs-{name}.json",
            size=(7.0, 4.0),
        )
    write_atomically(TABLE, ("\n".join(text) + "\n").encode())


def cell(pair: dict[str, Any], method: str, keep: float, split: str) -> Summary | None:
    """A score over the seeds of a method at a rate."""
    rows = [row for row in pair["rows"] if (row["method"], row["keep"]) == (method, keep)]
    return Summary.of([row[split] for row in rows]) if rows else None


def best(pair: dict[str, Any], keep: float, methods: list[str]) -> str:
    """The method that is best on the validation split."""
    sign = -1 if pair["bits"] else 1
    means = {name: cell(pair, name, keep, "validation") for name in methods}
    scored = {name: sign * each.mean for name, each in means.items() if each}
    return max(scored, key=lambda name: scored[name], default="")


def table(pair: dict[str, Any]) -> list[Row]:
    """A row for each method, a column for each rate, and the lead of gates."""
    names = list(dict.fromkeys(row["method"] for row in pair["rows"]))
    methods = [name for name in names if name != DENSE]
    keeps = sorted({row["keep"] for row in pair["rows"] if row["keep"] < 1}, reverse=True)
    seeds = len({row["seed"] for row in pair["rows"]})
    dense = cell(pair, DENSE, 1.0, "test")
    control = [(DENSE, *(spread(dense) for _ in keeps))] if dense else []
    lines = [
        (name, *(marked(pair, name, keep, best(pair, keep, methods)) for keep in keeps))
        for name in methods
    ]
    sign = -1 if pair["bits"] else 1
    leads = []
    for keep in keeps:
        ours = cell(pair, OURS, keep, "test")
        rival = cell(pair, best(pair, keep, [m for m in methods if m != OURS]), keep, "test")
        leads.append(f"{sign * (ours.mean - rival.mean):+.2f}" if ours and rival else "-")
    return [
        (f"{seeds} seeds", *(f"keep {keep:g}" for keep in keeps)),
        *control,
        *lines,
        ("gates ahead of the best other by", *leads),
    ]


def marked(pair: dict[str, Any], method: str, keep: float, winner: str) -> str:
    found = cell(pair, method, keep, "test")
    if found is None:
        return "-"
    kept, total = cell(pair, method, keep, "kept"), cell(pair, method, keep, "total")
    assert kept is not None
    assert total is not None
    share = kept.mean / total.mean
    size = "" if 0.9 < share / keep < 1.1 else f" [{share:.2g}]"
    return spread(found) + ("*" if method == winner else "") + size


def spread(found: Summary) -> str:
    return f"{found.mean:.2f}" + (f" ± {found.spread:.2f}" if found.low < found.high else "")


def draw(figure: Any, pair: dict[str, Any]) -> None:
    """Scores over the fraction of weights, with bars from the lowest seed to the highest."""
    axes = figure.subplots()
    names = list(dict.fromkeys(row["method"] for row in pair["rows"]))
    for name in [each for each in names if each != DENSE]:
        keeps = sorted({row["keep"] for row in pair["rows"] if row["method"] == name})
        found = [cell(pair, name, keep, "test") for keep in keeps]
        means = [each.mean for each in found if each]
        low = [each.mean - each.low for each in found if each]
        high = [each.high - each.mean for each in found if each]
        wide = 2.2 if name == OURS else 1.1
        axes.errorbar(keeps, means, yerr=(low, high), label=name, linewidth=wide, capsize=2)
    if dense := cell(pair, DENSE, 1.0, "test"):
        axes.axhline(dense.mean, color="black", linestyle=":", label=DENSE)
    ylabel = "bits per character" if pair["bits"] else "test accuracy in per cent"
    axes.set(xscale="log", xlabel="fraction of weights kept", ylabel=ylabel, title=pair["about"])
    axes.legend(fontsize=7)


if __name__ == "__main__":
    main()
