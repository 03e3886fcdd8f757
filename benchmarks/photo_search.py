"""Tries settings for AlexNet and VGG-16 on Imagenette with one seed and keeps what the validation split says.

    python benchmarks/photo_search.py alexnet-start vgg16-34x --data data --out photograph-search.json

DATA is what `device_data.py unpack` made. A group is trained in one process, one setting after the
other; its dense network comes first, if it is not there yet. The test set is not looked at.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from sparsegate.target import Target
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.recipes.photographs import CLOSED
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, Teacher, machine, train, versions

PHASES = {"begin": 0.08, "reach": 0.45, "freeze": 0.55, "travel": 0.005, "evenly": 0.75}
CONNECTED = 3_068_878  # of AlexNet's fully connected weights, at 10.3x in all
TITLE = "Settings for AlexNet and VGG-16 on Imagenette, one seed, by the validation split; the test set was not read."


@dataclass(frozen=True)
class Trial:
    """What differs from setting to setting."""

    rate: float
    epochs: int
    lr: float
    clip: float = 1.0
    start: Literal["graded", "listen", "closed"] = "graded"
    """Gates' places from the weights, or from the loss.

    Or 95 % of them closed, as the paper does it.
    """
    fade: bool = True
    connected: bool = False
    """Only fully connected layers have gates."""
    share: float = 0.5
    temperature: float = 2.0
    phases: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """A network, and how its dense form is trained."""

    recipe: str
    first: str
    batch_size: int
    epochs: int
    lr: float


ALEXNET = Kind(
    "alexnet-imagenette", "alexnet_features.safetensors", batch_size=128, epochs=25, lr=0.006
)
VGG16 = Kind("vgg16-imagenette", "vgg16_features.safetensors", batch_size=64, epochs=6, lr=0.003)
GROUPS: dict[str, tuple[Kind, list[Trial]]] = {
    "alexnet-10x": (
        ALEXNET,
        [
            Trial(10.3, 20, 0.004, start="listen", connected=True),
            Trial(10.3, 20, 0.004, start="listen", connected=True, fade=False),
            Trial(10.3, 20, 0.004, start="listen"),
        ],
    ),
    "alexnet-10x-taught": (
        ALEXNET,
        [
            Trial(10.3, 20, 0.004, start="closed", connected=True, share=0.9),
            Trial(10.3, 20, 0.004, start="listen", connected=True, share=0.9),
            Trial(10.3, 20, 0.002, start="closed", connected=True, share=1.0),
        ],
    ),
    "alexnet-start": (
        ALEXNET,
        [
            Trial(36, 30, 0.006, start="listen"),
            Trial(36, 30, 0.006, start="listen", fade=False),
            Trial(36, 30, 0.006),
            Trial(100, 40, 0.006, start="listen"),
            Trial(100, 40, 0.006),
            Trial(300, 40, 0.006, start="listen"),
        ],
    ),
    "alexnet-36x": (
        ALEXNET,
        [
            Trial(36, 50, 0.006, share=0.9),
            Trial(36, 50, 0.015, share=0.9),
            Trial(36, 50, 0.01, start="listen", share=1.0, temperature=4.0),
        ],
    ),
    "vgg16-34x": (
        VGG16,
        [
            Trial(34, 8, 0.002, start="listen"),
            Trial(34, 10, 0.002, share=0.9),
            Trial(34, 10, 0.004, share=0.9),
            Trial(14, 8, 0.002, share=0.9),
        ],
    ),
}


def dense_run(kind: Kind, data: Path) -> Run[Any]:
    return dataclasses.replace(
        RECIPES[f"{kind.recipe}-dense"](),
        weights=str(data / kind.first),
        new_head=("classifier.*",),
        batch_size=kind.batch_size,
        epochs=kind.epochs,
        lr=kind.lr,
    )


def sparse_run(kind: Kind, trial: Trial, dense: str) -> Run[Any]:
    """The run of a setting, from the folder of its dense network."""
    wish: dict[str, Any] = {"weights": CONNECTED} if trial.connected else {"keep": 1 / trial.rate}
    target = Target(**wish, **{**PHASES, **trial.phases}, listen=trial.start == "listen")
    start: dict[str, Any] = (
        {"keep": CLOSED} if trial.start == "closed" else {"graded": trial.start == "graded"}
    )
    only = ("classifier.*",) if trial.connected else ("*",)
    return dataclasses.replace(
        RECIPES[kind.recipe](),
        method=LearnedGates(target=target, fade=trial.fade, only=only, **start),
        weights=dense,
        distil=Teacher(dense, temperature=trial.temperature, share=trial.share),
        batch_size=kind.batch_size,
        epochs=trial.epochs,
        lr=trial.lr,
        clip=trial.clip,
    )


def rows(group: str, data: Path, runs: Path) -> Iterator[dict[str, Any]]:
    """Trains a group and says what came of each setting."""
    kind, trials = GROUPS[group]
    dense = dense_run(kind, data)
    yield _row(group, {}, train(dense, folder=runs, command="", save_every=10**6, pack=False))
    for trial in trials:
        run = sparse_run(kind, trial, str(runs / dense.name))
        yield _row(
            group, vars(trial), train(run, folder=runs, command="", save_every=10**6, pack=False)
        )


def _row(group: str, trial: dict[str, Any], record: Record) -> dict[str, Any]:
    return {
        "group": group,
        "trial": trial,
        "run": record.run,
        "validation": record.validation,
        "kept": record.kept,
        "seconds": record.seconds,
        "losses": [round(epoch.loss, 3) for epoch in record.epochs],
        "validations": [round(epoch.validation, 1) for epoch in record.epochs],
        "layers": {layer.name: layer.kept for layer in record.layers},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="+", choices=list(GROUPS))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="after which no further setting is begun"
    )
    args = parser.parse_args()
    os.environ.setdefault("SPARSEGATE_DATA", str(args.data))
    os.environ.setdefault("SPARSEGATE_CACHE", str(args.runs / "cache"))
    torch.backends.cudnn.benchmark = True
    command = f"python benchmarks/photo_search.py {' '.join(args.groups)} --out {args.out.name}"
    record = {
        "title": TITLE,
        "command": command,
        "machine": machine(),
        "versions": versions(),
        "rows": [],
    }
    began = time.perf_counter()
    for row in (row for group in args.groups for row in rows(group, args.data, args.runs)):
        record["rows"].append(row)
        args.out.write_text(json.dumps(record, indent=1) + "\n")
        print(
            f"{row['validation']:6.2f} % {row['kept']:>12,} loss {row['losses'][-1]} {row['trial']}",
            flush=True,
        )
        if time.perf_counter() - began > args.seconds:
            return


if __name__ == "__main__":
    main()
