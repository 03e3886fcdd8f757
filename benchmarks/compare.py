"""Trains the compared recipes with several seeds and writes a study of each: python benchmarks/compare.py.

Runs whose records are in the results already are not made again, so it can be stopped and started.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterable, Iterator
from multiprocessing import TimeoutError as LateError
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparsegate.record import Record
from sparsegate.reproduce import RECIPES
from sparsegate.study import Study
from sparsegate.train import Run, train

Task = tuple[str, Run[Any], Path]
OWN = ("lenet5-demo", "lenet5-method1", "lenet5-method2")  # which have studies of their own
COMPARED = [name for name in RECIPES if name.startswith("lenet5-") and name not in OWN]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=COMPARED, metavar="RECIPE")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--processes", type=int, default=1, help="runs at a time; more than one pays on a GPU")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no run goes on")
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results/compare"))
    options = parser.parse_args()
    command = f"python benchmarks/compare.py --seeds {' '.join(map(str, options.seeds))}"
    command += f" --processes {options.processes}"
    runs = {
        name: [dataclasses.replace(RECIPES[name](), seed=seed) for seed in options.seeds] for name in options.recipes
    }
    found = {name: recorded(options.results / f"{name}.json") for name in runs}
    tasks = [(name, run, options.folder) for name, each in runs.items() for run in each if run.name not in found[name]]
    # The longest first, so that none is alone at the end.
    tasks.sort(key=lambda task: -task[1].epochs)
    for name, record in trained(tasks, options.processes, options.limit):
        found[name][Run.from_json(record.run).name] = record
        print(f"{name} {record.run['seed']}: {record.kept} ({record.rate:.1f}x) {record.seconds:.0f} s", flush=True)
        wanted = [run.name for run in runs[name]]
        save(name, command, [found[name][run] for run in wanted if run in found[name]], options.results)


def recorded(path: Path) -> dict[str, Record]:
    """The records of a study by the name that their run has today; none if there is no study yet."""
    records = Study.load(path).records if path.exists() else ()
    return {Run.from_json(record.run).name: record for record in records}


def trained(tasks: Iterable[Task], processes: int, limit: float) -> Iterator[tuple[str, Record]]:
    """The records of runs as they end, with their recipes' names; those that have not ended in time are left out."""
    begin, waiting = time.monotonic(), list(tasks)
    with get_context("spawn").Pool(processes) as pool:  # leaving it ends the processes
        results = pool.imap_unordered(_train, waiting)
        for _ in waiting:
            try:
                yield results.next(min(limit - (time.monotonic() - begin), 1e6))
            except LateError:
                return
            except (RuntimeError, ValueError) as error:
                print(f"a run failed: {error}", flush=True)


def save(name: str, command: str, records: list[Record], folder: Path) -> None:
    """Writes the study of a recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    title = (RECIPES[name].__doc__ or name).strip()
    Study(title, command, tuple(records)).save(folder / f"{name}.json")


def _train(task: Task) -> tuple[str, Record]:
    name, run, folder = task
    return name, train(run, folder=folder, command=f"sparsegate train {name} --seed {run.seed}")


if __name__ == "__main__":
    main()
