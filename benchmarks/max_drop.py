"""Asks for a largest loss of accuracy in a plain loop, beside a search by hand over the weights to keep.

    python benchmarks/max_drop.py lenet300 DATA --name fashion --out results/max-drop.json

DATA is mnist or a folder with idx files. Every training has the same epochs, AdamW and one cycle of
the learning rate. The baseline is the dense network of the same seed. Trainings that are in OUT
already are not made again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate_lab.data import Split, load_data
from sparsegate_lab.models import make_model
from sparsegate_lab.train import machine, versions
from sparsegate_runtime.atomic import write_atomically

BATCH, LR = 128, 3e-3
Images = tuple[Tensor, Tensor]


def main() -> None:
    options = parse()
    data = load_data(options.data)
    mean, spread = (of(data.train.images.float()) for of in (torch.mean, torch.std))

    def normalised(split: Split) -> Images:
        return (split.images.float() - mean) / spread, split.labels.long()

    splits = {name: normalised(getattr(data, name)) for name in ("train", "validation", "test")}
    record = json.loads(options.out.read_text()) if options.out.exists() else {"rows": []}
    for seed in options.seeds:
        about = {"model": options.model, "data": options.name, "epochs": options.epochs}
        about["seed"] = seed
        baseline = made({**about, "target": {}}, splits, record, options.out)["validation"]
        drops = [{"max_drop": drop, "baseline": baseline} for drop in options.drops]
        for target in [*drops, *({"keep": keep} for keep in options.keeps)]:
            made({**about, "target": target}, splits, record, options.out)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--name", required=True, help="name of the data in the record")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--drops", type=float, nargs="*", default=[0.3, 1.0])
    parser.add_argument("--keeps", type=float, nargs="*", default=[0.06, 0.03, 0.015])
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def made(
    about: dict[str, Any], splits: dict[str, Images], record: dict[str, Any], out: Path
) -> dict[str, Any]:
    """The row of a training, made now or found in the record."""
    for row in record["rows"]:
        if about.items() <= row.items():
            return dict(row)
    row = {**about, **trained(about, splits)}
    target = about["target"]
    if "max_drop" in target:
        row["met"] = row["validation"] >= target["baseline"] - target["max_drop"] - 1e-9
    record |= {
        "title": "A largest loss of accuracy, beside a search by hand over the weights to keep",
        "command": "python benchmarks/max_drop.py MODEL DATA --name NAME --out OUT",
        "machine": machine(),
        "versions": versions(),
        "rows": [*record["rows"], row],
    }
    write_atomically(out, (json.dumps(record, indent=1) + "\n").encode())
    print(row, flush=True)
    return row


def trained(about: dict[str, Any], splits: dict[str, Images]) -> dict[str, Any]:
    """Trains and measures a network."""
    torch.manual_seed(about["seed"])
    model, began = make_model(about["model"], num_classes=10), time.process_time()
    inputs, labels = splits["train"]
    per_epoch = len(labels) // BATCH
    steps, gates = about["epochs"] * per_epoch, None
    if about["target"]:
        gates = sg.GateSGD(
            sg.gate(model),
            target=sg.Target(**about["target"]),
            steps=steps,
            judge=lambda: accuracy(model, splits["validation"]),
        )
    optimizer = torch.optim.AdamW(sg.weights(model), lr=LR, weight_decay=0.01)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=steps)
    order = torch.Generator().manual_seed(about["seed"])
    for _ in range(about["epochs"]):
        mixed = torch.randperm(len(labels), generator=order)[: per_epoch * BATCH]
        for batch in mixed.split(BATCH):
            model.train()
            F.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            for each in (optimizer, gates):
                if each is not None:
                    each.step()
                    each.zero_grad()
            cycle.step()
    if gates is not None:
        model = sg.finish(model)
    weights = [each for each in model.parameters() if each.ndim > 1]
    return {
        "kept": sum(int(each.count_nonzero()) for each in weights),
        "total": sum(each.numel() for each in weights),
        "validation": round(accuracy(model, splits["validation"]), 2),
        "test": round(accuracy(model, splits["test"]), 2),
        "seconds": round(time.process_time() - began, 1),
    }


@torch.no_grad()
def accuracy(model: nn.Module, split: Images) -> float:
    was_training = model.training
    model.eval()
    parts = zip(split[0].split(1000), split[1].split(1000), strict=True)
    right = sum(int((model(image).argmax(1) == label).sum()) for image, label in parts)
    model.train(was_training)
    return 100 * right / len(split[1])


if __name__ == "__main__":
    main()
