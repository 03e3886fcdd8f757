"""Trains what exhibits need and keeps their records: python benchmarks/exhibits.py lambda-table --processes 14.

Runs whose records are in the results or in the folder of runs are not made again, so it can be stopped and started.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from multiprocessing import TimeoutError as LateError
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparsegate.reproduce import EXHIBITS, Archive, save_studies
from sparsegate.train import Run, train

SEEDS = (0, 1, 2)
Task = tuple[str, Run[Any], Path]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exhibits", nargs="+", choices=list(EXHIBITS), metavar="EXHIBIT")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time; more than one pays on a GPU")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no run goes on")
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    archive = Archive(results=options.results, runs=options.folder)
    missing = {run.name: (name, run) for name in options.exhibits for run in archive.missing(EXHIBITS[name], SEEDS)}
    # The longest first, so that none is alone at the end; then in the order of the exhibits.
    tasks = sorted(missing.values(), key=lambda task: -task[1].epochs)
    for words in trained([(*task, options.folder) for task in tasks], options.processes, options.limit):
        print(words, flush=True)
    for name in options.exhibits:
        keep(name, options)


def trained(tasks: list[Task], processes: int, limit: float) -> Iterator[str]:
    """A line for every run as it ends; those that have not ended in time are left out."""
    begin = time.monotonic()
    with get_context("spawn").Pool(processes) as pool:  # leaving it ends the processes
        results = pool.imap_unordered(_train, tasks)
        for _ in tasks:
            try:
                # A call without a limit never ends where a process was killed.
                yield results.next(min(limit - (time.monotonic() - begin), 1e6))
            except LateError:
                return


def keep(name: str, options: argparse.Namespace) -> None:
    """Writes the studies of an exhibit that have all seeds."""
    studies = Archive(results=options.results, runs=options.folder).studies(EXHIBITS[name], SEEDS)
    whole = {each: study for each, study in studies.items() if len(study.records) == len(SEEDS)}
    options.results.mkdir(parents=True, exist_ok=True)
    command = f"python benchmarks/exhibits.py {name} --processes {options.processes}"
    save_studies(options.results / f"{name}.json", EXHIBITS[name].title(), command, whole)
    print(f"{name}: {len(whole)} of {len(EXHIBITS[name].plan())} studies")


def _train(task: Task) -> str:
    name, run, folder = task
    record = train(run, folder=folder, command=f"sparsegate reproduce {name}")
    keep, variance = record.epochs[-1].keep, record.epochs[-1].variance
    return f"{name} {run.name}: {record.kept} {keep:.3f} {variance:.3f} {record.test:.2f} % {record.seconds:.0f} s"


if __name__ == "__main__":
    main()
