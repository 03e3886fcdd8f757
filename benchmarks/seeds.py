"""Trains a recipe with several seeds and writes the study.

Usage: python benchmarks/seeds.py lenet5-method1 --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from deadline import Deadline, LateError

from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.record import Record
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="+", choices=list(RECIPES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--processes", type=int, default=1, help="runs at a time; more than one pays on a GPU"
    )
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="seconds after which no run goes on"
    )
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    runs = {
        name: [dataclasses.replace(RECIPES[name](), seed=seed) for seed in options.seeds]
        for name in options.recipes
    }
    end = time.time() + options.limit
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        waiting = {
            name: [pool.submit(_trained, name, run, options.folder, end) for run in each]
            for name, each in runs.items()
        }
        for name, each in waiting.items():
            records = tuple(record for one in each if (record := one.result()) is not None)
            if len(records) == len(each):
                _report(name, records, options.processes, options.results)


def _trained(name: str, run: Run[Any], folder: Path, end: float) -> Record | None:
    """The record of a run, none if it has not ended in time."""
    try:
        return train(
            run,
            folder=folder,
            watch=Deadline(end),
            command=f"sparsegate train {name} --seed {run.seed}",
        )
    except LateError as error:
        print(f"{name} {run.seed} has not ended: {error}", flush=True)
        return None


def _report(name: str, records: tuple[Record, ...], processes: int, folder: Path) -> None:
    seeds = " ".join(str(record.run["seed"]) for record in records)
    title = (RECIPES[name].__doc__ or name).strip()
    command = f"python benchmarks/seeds.py {name} --seeds {seeds} --processes {processes}"
    study = Study(title, command, records)
    folder.mkdir(parents=True, exist_ok=True)
    study.save(folder / f"{name}.json")
    for record in records:
        seconds = record.seconds
        print(
            f"{name} {record.run['seed']}: {record.kept} ({record.rate:.1f}x) {record.test:.2f} % "
            f"{seconds:.0f} s"
        )


if __name__ == "__main__":
    main()
