"""Trains what exhibits need and keeps their records: python benchmarks/exhibits.py lambda-table --processes 14.

Runs whose records are in the results or in the folder of runs are not made again, so it can be
stopped and started. With --many, runs that differ in no more than their prices, starts and seeds
are trained as one by the batched trainer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from deadline import Deadline, ManyDeadline, check

from sparsegate_lab.batched import Member, check_agreement, train_many
from sparsegate_lab.paper import EXHIBITS, Archive, save_studies
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, train

SEEDS = (0, 1, 2)
MEMBERS = 40  # of a batch, at the most
Task = tuple[str, Run[Any], Path]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exhibits", nargs="+", choices=list(EXHIBITS), metavar="EXHIBIT")
    parser.add_argument(
        "--processes", type=int, default=1, help="runs at a time; more than one pays on a GPU"
    )
    parser.add_argument(
        "--many", action="store_true", help="train what can be trained together as one"
    )
    parser.add_argument(
        "--limit", type=float, default=float("inf"), help="seconds after which no run goes on"
    )
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    archive = Archive(results=options.results, runs=options.folder)
    missing = {
        run.name: (name, run)
        for name in options.exhibits
        for run in archive.missing(EXHIBITS[name], SEEDS)
    }
    # The longest first, so that none is alone at the end; then in the order of the exhibits.
    tasks = sorted(missing.values(), key=lambda task: -task[1].epochs)
    make = trained_together if options.many else trained
    for words in make(
        [(*task, options.folder) for task in tasks], options.processes, options.limit
    ):
        print(words, flush=True)
    for name in options.exhibits:
        keep(name, options)


def trained(tasks: list[Task], processes: int, limit: float) -> Iterator[str]:
    """A line for every run as it ends; those that have not ended in time are left out."""
    end = time.time() + limit
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_train, [(*task, end) for task in tasks])
        pool.close()  # so that the processes end by themselves
        pool.join()


def trained_together(tasks: list[Task], processes: int, limit: float) -> Iterator[str]:
    """The same, with the batched trainer; each process has a batch."""
    end = time.time() + limit
    with get_context("spawn").Pool(processes, maxtasksperchild=1) as pool:
        for lines in pool.imap_unordered(_train_many, [(batch, end) for batch in batches(tasks)]):
            yield from lines
        pool.close()
        pool.join()


def batches(tasks: list[Task]) -> list[list[Task]]:
    """Tasks that can be trained as one, together."""
    found: list[list[Task]] = []
    for task in tasks:
        home = next(
            (each for each in found if len(each) < MEMBERS and _agree(each[0][1], task[1])), None
        )
        if home is None:
            found.append([task])
        else:
            home.append(task)
    return found


def _agree(one: Run[Any], other: Run[Any]) -> bool:
    try:
        check_agreement([Member(one), Member(other)])
    except ValueError:
        return False
    return True


def keep(name: str, options: argparse.Namespace) -> None:
    """Writes the studies of an exhibit that have all seeds."""
    studies = Archive(results=options.results, runs=options.folder).studies(EXHIBITS[name], SEEDS)
    whole = {each: study for each, study in studies.items() if len(study.records) == len(SEEDS)}
    options.results.mkdir(parents=True, exist_ok=True)
    command = f"python benchmarks/exhibits.py {name} --processes {options.processes}{' --many' * options.many}"
    save_studies(options.results / f"{name}.json", EXHIBITS[name].title(), command, whole)
    print(f"{name}: {len(whole)} of {len(EXHIBITS[name].plan())} studies")


def _train(given: tuple[str, Run[Any], Path, float]) -> str:
    name, run, folder, end = given
    try:
        check(end, "before the first epoch")
        record = train(
            run, folder=folder, watch=Deadline(end), command=f"sparsegate reproduce {name}"
        )
    except RuntimeError as error:
        return f"{name} {run.name} has not ended: {error}"
    return _line(name, record)


def _train_many(given: tuple[list[Task], float]) -> list[str]:
    tasks, end = given
    command = f"python benchmarks/exhibits.py {' '.join(dict.fromkeys(name for name, _, _ in tasks))} --many"
    try:
        check(end, "before the first epoch")
        runs = [run for _, run, _ in tasks]
        records = train_many(runs, folder=tasks[0][2], watch=ManyDeadline(end), command=command)
    except RuntimeError as error:
        return [f"{len(tasks)} runs have not ended: {error}"]
    return [_line(name, record) for (name, _, _), record in zip(tasks, records, strict=True)]


def _line(name: str, record: Record) -> str:
    keep, variance = record.epochs[-1].keep, record.epochs[-1].variance
    return f"{name} {record.name}: {record.kept} {keep:.3f} {variance:.3f} {record.test:.2f} % {record.seconds:.0f} s"


if __name__ == "__main__":
    main()
