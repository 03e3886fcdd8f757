"""Trains the dense baselines and the gated networks on the images at hand, on a GPU, within a time.

    python benchmarks/gpu_train.py --data DATA --runs RUNS --out runs.json --limit 500 alexnet vgg16 cifar

DATA is what `device_data.py unpack` made. Runs that have ended are not trained again; one that the limit interrupts
goes on from its last checkpoint when the same command comes again. The JSON file has the record of every run that has
ended, and is written after each.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparsegate.methods import LearnedGates
from sparsegate.penalty import Penalty
from sparsegate.record import Epoch, Record
from sparsegate.reproduce import RECIPES
from sparsegate.train import Run, Watcher, train

SAVE_EVERY = 10
PLANS = {
    # recipe of the baseline, its first weights, recipe of the gated network, prices
    "alexnet": (
        "alexnet-imagenette-dense",
        "alexnet_features.safetensors",
        "alexnet-imagenette",
        (50.0, 15.0, 150.0, 500.0),
    ),
    "vgg16": ("vgg16-imagenette-dense", "vgg16_features.safetensors", "vgg16-imagenette", (50.0, 150.0)),
    "cifar": ("vgg16-cifar10-dense", "", "vgg16-cifar10", (30.0, 10.0, 100.0, 300.0)),
}


class TimeUp(Exception):  # noqa: N818
    """The time is over; the run goes on next time."""


class Limit(Watcher):
    """Ends a run when the time is over, and says how it goes."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def measured(self, epoch: Epoch) -> None:
        if epoch.epoch % SAVE_EVERY == 0:
            print(f"  epoch {epoch.epoch}: validation {epoch.validation:.2f} %, kept {epoch.kept:,}", flush=True)
        if time.monotonic() > self.deadline:
            raise TimeUp


def runs(plan: str, data: Path, folder: Path, seeds: tuple[int, ...], epochs: float) -> Iterator[Run[Any]]:
    """The baseline of each seed, then the gated networks that begin with it."""
    dense_name, first, gated_name, prices = PLANS[plan]
    for seed in seeds:
        dense = _shorter(dataclasses.replace(RECIPES[dense_name](), seed=seed), epochs)
        if first:
            dense = dataclasses.replace(dense, weights=str(data / first), new_head=("classifier.*",))
        yield dense
        for price in prices:
            gated = RECIPES[gated_name]()
            assert isinstance(gated.method, LearnedGates)
            method = dataclasses.replace(gated.method, penalty=Penalty(count=price))
            weights = str(folder / dense.name)
            yield _shorter(dataclasses.replace(gated, method=method, weights=weights, seed=seed), epochs)


def _shorter(run: Run[Any], factor: float) -> Run[Any]:
    return dataclasses.replace(run, epochs=max(1, round(run.epochs * factor)))


def told(record: Record) -> str:
    return (
        f"{record.name}: validation {record.validation:.2f} %, test {record.test:.2f} %, {record.rate:.1f}x, "
        f"{record.seconds:.0f} s in {len(record.epochs)} epochs"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", choices=list(PLANS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=500.0, help="seconds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=float, default=1.0, help="factor on the epochs of the recipes")
    args = parser.parse_args()
    os.environ.setdefault("SPARSEGATE_DATA", str(args.data))
    os.environ.setdefault("SPARSEGATE_CACHE", str(args.data / "cache"))
    watch, records = Limit(time.monotonic() + args.limit), []
    try:
        for run in (
            run for plan in args.plans for run in runs(plan, args.data, args.runs, tuple(args.seeds), args.epochs)
        ):
            record = train(run, folder=args.runs, watch=watch, save_every=SAVE_EVERY, pack=False)
            records.append(record.to_json())
            args.out.write_text(json.dumps(records, indent=1))
            print(told(record), flush=True)
    except TimeUp:
        print("the time is over")


if __name__ == "__main__":
    main()
