"""How long exhibits take from nothing on two cores: python benchmarks/exhibit_time.py lambda-table --folder EMPTY.

Two processes of one thread each, no record but those in the folder. It may be stopped by --limit
and called again: the seconds of every call are added, the last one writes the result. With
--epochs, for an exhibit of long runs, only so many epochs of one run are trained, in both processes
at once, and the rest is reckoned. With --records nothing is trained: whole runs of the same kind
that were made on this machine, two at a time, say how long one takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import statistics
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that are started, too

from exhibits import SEEDS, trained

from sparsegate_lab.paper import EXHIBITS, Archive
from sparsegate_lab.paper.archive import planned
from sparsegate_lab.train import machine, versions

RESULT = Path("results/exhibit-time.json")
PROCESSES = 2
ENOUGH = 30.0  # minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exhibit", choices=list(EXHIBITS), metavar="EXHIBIT")
    parser.add_argument(
        "--folder", type=Path, required=True, help="of runs; empty at the first call"
    )
    parser.add_argument(
        "--limit", type=float, default=float("inf"), help="seconds after which this call ends"
    )
    parser.add_argument(
        "--epochs", type=int, default=0, help="train only so many, and reckon the rest"
    )
    parser.add_argument(
        "--records", action="store_true", help="reckon from the records in the folder"
    )
    options = parser.parse_args()
    entry = (
        recorded(options)
        if options.records
        else reckoned(options)
        if options.epochs
        else timed(options)
    )
    if entry:
        write(options.exhibit, entry)
        print(options.exhibit, json.dumps(entry))


def timed(options: argparse.Namespace) -> dict[str, Any]:
    """Trains what the exhibit lacks; empty until it lacks nothing."""
    begin = time.monotonic()
    missing = Archive(runs=options.folder).missing(EXHIBITS[options.exhibit], SEEDS)
    tasks = [(options.exhibit, run, options.folder) for run in missing]
    for words in trained(tasks, PROCESSES, options.limit):
        print(words, flush=True)
    calls = options.folder / f"{options.exhibit}.calls.json"
    before = json.loads(calls.read_text()) if calls.exists() else []
    calls.write_text(json.dumps([*before, round(time.monotonic() - begin, 1)]))
    if Archive(runs=options.folder).missing(EXHIBITS[options.exhibit], SEEDS):
        return {}
    seconds = json.loads(calls.read_text())
    return {
        "runs": num_runs(options.exhibit),
        "how": "whole, from nothing",
        "calls": seconds,
        **minutes(sum(seconds)),
    }


def reckoned(options: argparse.Namespace) -> dict[str, Any]:
    """Trains some epochs of a run twice at once, and multiplies."""
    run = next(iter(EXHIBITS[options.exhibit].plan().values()))
    short = [
        dataclasses.replace(run, epochs=options.epochs, seed=seed) for seed in range(PROCESSES)
    ]
    list(
        trained(
            [(options.exhibit, each, options.folder) for each in short], PROCESSES, options.limit
        )
    )
    records = [Archive(runs=options.folder).record(each) for each in short]
    per_epoch = max(record.seconds / options.epochs for record in records if record is not None)
    turns = math.ceil(num_runs(options.exhibit) / PROCESSES)
    how = f"reckoned from {options.epochs} epochs of {run.epochs}, in both processes at once"
    total = turns * run.epochs * per_epoch
    return {
        "runs": num_runs(options.exhibit),
        "how": how,
        "seconds_per_epoch": round(per_epoch, 2),
        **minutes(total),
    }


def recorded(options: argparse.Namespace) -> dict[str, Any]:
    """Adds up the runs, each by the median of those of its kind that have a record of this machine."""
    here = {**machine(), "threads": 1}
    known: dict[tuple[Any, ...], list[float]] = {}
    for record in Archive(runs=options.folder).records():
        if all(record.machine.get(part) == value for part, value in here.items()):
            known.setdefault(kind(record.run), []).append(record.seconds)
    kinds = [
        kind(run.to_json())
        for runs in planned(EXHIBITS[options.exhibit], SEEDS).values()
        for run in runs
    ]
    total = sum(statistics.median(known[each]) for each in kinds) / PROCESSES
    count, least = (
        sum(len(known[each]) for each in set(kinds)),
        min(min(known[each]) for each in kinds),
    )
    how = f"reckoned from {count} whole runs of its kinds, two at a time; the fastest took {least:.0f} s"
    per_run = round(total * PROCESSES / len(kinds), 1)
    return {"runs": len(kinds), "how": how, "seconds_per_run": per_run, **minutes(total)}


def kind(run: dict[str, Any]) -> tuple[Any, ...]:
    """What the time of a run depends on."""
    return (
        run["model"],
        run["data"],
        run["method"]["name"],
        run["method"].get("draw"),
        run["epochs"],
        run["batch_size"],
    )


def minutes(seconds: float) -> dict[str, Any]:
    """The total, and whether it is short enough."""
    return {"minutes": round(seconds / 60, 1), "enough": seconds / 60 < ENOUGH}


def num_runs(name: str) -> int:
    """How many runs an exhibit is made of, with all seeds."""
    return sum(map(len, planned(EXHIBITS[name], SEEDS).values()))


def write(name: str, entry: dict[str, Any]) -> None:
    """Adds an exhibit to the result."""
    before = json.loads(RESULT.read_text())["exhibits"] if RESULT.exists() else {}
    content = {
        "title": f"Exhibits from nothing: {PROCESSES} processes of one thread, at most {ENOUGH:g} minutes wanted",
        "command": "python benchmarks/exhibit_time.py EXHIBIT --folder EMPTY",
        "machine": machine(),
        "versions": versions(),
        "exhibits": {**before, name: entry},
    }
    RESULT.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
