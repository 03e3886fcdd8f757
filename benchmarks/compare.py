"""Trains the compared recipes with several seeds and writes a study of each: python benchmarks/compare.py.

Runs whose records are in the results already are not made again, so it can be stopped and started.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from deadline import Deadline, check

from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.record import Record
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run, train

Task = tuple[str, Run[Any], Path, float]
OWN = ("lenet5-demo", "lenet5-method1", "lenet5-method2")  # which have studies of their own
COMPARED = [name for name in RECIPES if name.startswith("lenet5-") and name not in OWN]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=COMPARED, metavar="RECIPE")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--processes", type=int, default=1, help="runs at a time; more than one pays on a GPU"
    )
    parser.add_argument(
        "--limit", type=float, default=float("inf"), help="seconds after which no run goes on"
    )
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results/compare"))
    options = parser.parse_args()
    command = f"python benchmarks/compare.py --seeds {' '.join(map(str, options.seeds))}"
    command += f" --processes {options.processes}"
    runs = {
        name: [dataclasses.replace(RECIPES[name](), seed=seed) for seed in options.seeds]
        for name in options.recipes
    }
    found = {name: recorded(options.results / f"{name}.json") for name in runs}
    missing = [
        (name, run) for name, each in runs.items() for run in each if run.name not in found[name]
    ]
    # The longest first, so that none is alone at the end.
    missing.sort(key=lambda task: -task[1].epochs)
    end = time.time() + options.limit
    for name, record in trained(
        [(*task, options.folder, end) for task in missing], options.processes
    ):
        found[name][Run.from_json(record.run).name] = record
        print(
            f"{name} {record.run['seed']}: {record.kept} ({record.rate:.1f}x) {record.seconds:.0f} "
            "s",
            flush=True,
        )
        wanted = [run.name for run in runs[name]]
        save(
            name,
            command,
            [found[name][run] for run in wanted if run in found[name]],
            options.results,
        )


def recorded(path: Path) -> dict[str, Record]:
    """The records of a study by the name that their run has today.

    None if there is no study yet.
    """
    records = Study.load(path).records if path.exists() else ()
    return {Run.from_json(record.run).name: record for record in records}


def trained(tasks: Iterable[Task], processes: int) -> Iterator[tuple[str, Record]]:
    """The records of runs as they end, with their recipes' names.

    Those that have not ended in time are left out.
    """
    with get_context("spawn").Pool(processes) as pool:
        for made in pool.imap_unordered(_train, tasks):
            if isinstance(made, str):
                print(made, flush=True)
            else:
                yield made
        pool.close()  # so that the processes end by themselves
        pool.join()


def save(name: str, command: str, records: list[Record], folder: Path) -> None:
    """Writes the study of a recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    title = (RECIPES[name].__doc__ or name).strip()
    Study(title, command, tuple(records)).save(folder / f"{name}.json")


def _train(task: Task) -> tuple[str, Record] | str:
    """A recipe's name and record, or why there is none."""
    name, run, folder, end = task
    try:
        check(end, "before the first epoch")
        return name, train(
            run,
            folder=folder,
            watch=Deadline(end),
            command=f"sparsegate train {name} --seed {run.seed}",
        )
    except (RuntimeError, ValueError) as error:
        return f"{name} {run.seed} has not ended: {error}"


if __name__ == "__main__":
    main()
