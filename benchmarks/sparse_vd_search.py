"""Searches settings of sparse_vd for LeNet-5 on the validation split: python benchmarks/sparse_vd_search.py.

The test set is not read here. When every setting has been tried, the best of those that are small
enough are tried with other seeds, until the time is up.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.pool import AsyncResult, Pool
from pathlib import Path
from typing import Any

from sparse_vd_trial import Trial

from sparsegate_lab.data import Dataset, mnist
from sparsegate_lab.methods import SparseVD
from sparsegate_lab.train import Run
from sparsegate_runtime.atomic import write_atomically

SMALL = 1_690  # weights: LeNet-5 has 430 500, and 250x is wanted with a little to spare
BEST = 4  # settings that are tried with more seeds
SEEDS = 4  # of each
FIRST = 10  # seed; the study has others
TITLE = "The search for settings of sparse_vd on LeNet-5, by validation accuracy; the search reads no test images."
Row = dict[str, Any]


def setting(
    mean_lr: float, variance_lr: float, price: float, freeze: float = 0.75, **more: Any
) -> Run[SparseVD]:
    own = {key: more.pop(key) for key in ("wait", "ramp", "threshold") if key in more}
    method = SparseVD(mean_lr=mean_lr, variance_lr=variance_lr, price=price, freeze=freeze, **own)
    return Run(**{"epochs": 60, "seed": FIRST, **more, "method": method})


ROUNDS = {
    "first": [
        setting(3e-3, 3e-3, 2.0),
        setting(2e-3, 3e-3, 3.0),
        setting(3e-3, 1e-2, 2.0),
        setting(2e-3, 1e-2, 2.0),
        setting(4e-3, 3e-3, 1.5),
        setting(3e-3, 3e-3, 2.0, 1.0),
        setting(2e-3, 1e-2, 3.0),
        setting(4e-3, 3e-3, 1.25, 1.0),
        setting(3e-3, 1e-2, 1.5),
        setting(3e-3, 3e-3, 3.0),
        setting(5e-3, 1e-2, 1.5),
        setting(2e-3, 1e-2, 2.0, 1.0),
        setting(3e-3, 3e-3, 2.0, shift=1),
        setting(1e-3, 1e-2, 3.0),
        setting(3e-3, 3e-3, 2.0, 0.6),
        setting(3e-3, 3e-3, 2.0, ramp=0.5),
        setting(2e-3, 3e-3, 5.0),
        setting(3e-3, 1e-2, 3.0),
        setting(2e-3, 3e-2, 2.0),
        setting(3e-3, 1e-2, 2.0, shift=0),
    ]
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("round", choices=list(ROUNDS))
    parser.add_argument(
        "--processes", type=int, default=1, help="trials at a time; more than one pays on a GPU"
    )
    parser.add_argument(
        "--limit", type=float, default=float("inf"), help="seconds after which no trial goes on"
    )
    parser.add_argument("--out", type=Path, default=Path("results/sparse-vd-search.json"))
    parser.add_argument("--epochs", type=int, help="other than the round's")
    parser.add_argument(
        "--images", type=int, help="train on fewer than all, to see that everything works"
    )
    options = parser.parse_args()
    runs = ROUNDS[options.round]
    if options.epochs is not None:
        runs = [dataclasses.replace(run, epochs=options.epochs) for run in runs]
    rows: list[Row] = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    new: list[Row] = []
    with get_context("spawn").Pool(options.processes) as pool:  # leaving it ends the processes
        command = shlex.join(["python", "benchmarks/sparse_vd_search.py", *sys.argv[1:]])
        tasks = Tasks(options.round, list(runs), options.images)
        for row in found(pool, tasks, options.processes, time.monotonic() + options.limit):
            tasks.rows.append(row)
            new.append(row)
            print(words(row), flush=True)
            content = {"title": TITLE, "command": command, "rows": rows + new}
            write_atomically(options.out, (json.dumps(content, indent=0) + "\n").encode())


class Tasks:
    """What to try next: the settings in their order, then other seeds of those that turned out well."""

    def __init__(self, name: str, waiting: list[Run[SparseVD]], images: int | None) -> None:
        self.name, self.waiting, self.images = name, waiting, images
        self.given: dict[Run[SparseVD], int] = defaultdict(int)
        self.rows: list[Row] = []

    def next(self) -> tuple[str, Run[SparseVD], int | None] | None:
        """The next task; none if nothing is left to do."""
        run = self.waiting.pop(0) if self.waiting else self._again()
        if run is None:
            return None
        self.given[dataclasses.replace(run, seed=0)] += 1
        return self.name, run, self.images

    def _again(self) -> Run[SparseVD] | None:
        by_setting: dict[Run[SparseVD], list[Row]] = defaultdict(list)
        for row in self.rows:
            by_setting[dataclasses.replace(Run.from_json(row["run"]), seed=0)].append(row)
        small = [run for run, each in by_setting.items() if _mean("kept", each) <= SMALL]
        best = sorted(small, key=lambda run: -_mean("validation", by_setting[run]))[:BEST]
        open_ = [run for run in best if self.given[run] < SEEDS]
        return dataclasses.replace(open_[0], seed=FIRST + self.given[open_[0]]) if open_ else None


def _mean(key: str, rows: list[Row]) -> float:
    return float(sum(row[key] for row in rows)) / len(rows)


def found(pool: Pool, tasks: Tasks, processes: int, end: float) -> Iterator[Row]:
    """The rows as they come, until the time is up."""
    going: list[AsyncResult[Row]] = []
    while time.monotonic() < end:
        while len(going) < processes and (task := tasks.next()) is not None:
            going.append(pool.apply_async(tried, task))
        if not going:
            return
        ready = [each for each in going if each.ready()]
        going = [each for each in going if each not in ready]
        for each in ready:
            try:
                yield each.get()
            except RuntimeError as error:
                print(f"a trial failed: {error}", flush=True)
        time.sleep(0.1)


def tried(name: str, run: Run[SparseVD], images: int | None) -> Row:
    """What came of a setting."""
    data = mnist()
    if images is not None:
        data = Dataset(data.train.part(0, images), data.validation.part(0, images), data.test)
    return {"round": name, **Trial(run, data).row()}


def words(row: Row) -> str:
    """A row in a line."""
    method, run = row["run"]["method"], row["run"]
    keys = ("mean_lr", "variance_lr", "price", "freeze", "ramp", "threshold")
    settings = " ".join(f"{key} {method[key]:g}" for key in keys)
    seen = " ".join(f"{each['kept']}@{each['validation']:.2f}" for each in row["seen"])
    return f"{settings} shift {run['shift']} seed {run['seed']}: {seen} ({row['seconds']:.0f} s)"


if __name__ == "__main__":
    main()
