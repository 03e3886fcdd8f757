"""Whether gates in 16 bits with a momentum in bfloat16 lose accuracy: LeNet-5 with every update, several seeds each.

    python benchmarks/small_state.py --processes 9 --out results/small-state.json

The recipe is `lenet5-demo`; only `update` differs: weights and gates by two optimizers (apart), by
one in one pass (together), or by one with the small state (small). A pair has the same seed, so the
same images in the same order. On a CPU the first two are equal to the last bit. Runs that have
ended are not trained again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.record import Epoch, Record
from sparsegate_lab.study import Study, Summary
from sparsegate_lab.train import Run, Watcher, machine, train, versions

WAYS = ("apart", "together", "small")
RECIPE = "lenet5-demo"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--epochs", type=int, help="other than the recipe's")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="seconds after which runs are left"
    )
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=Path("results/small-state.json"))
    options = parser.parse_args()
    runs = [
        (way, described(way, seed, options.epochs))
        for seed in options.seeds
        for way in options.ways
    ]
    found: dict[str, list[Record]] = {way: [] for way in WAYS}
    late = Late(time.time() + options.limit)
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(trained, run, options.folder, late): way for way, run in runs}
        for each in as_completed(waiting):
            if isinstance(each.exception(), TimeoutError):
                print(f"{waiting[each]}: left unfinished", flush=True)
                continue
            found[waiting[each]].append(each.result())
            print(line(waiting[each], found[waiting[each]][-1]), flush=True)
            write(options, found)


class Late(Watcher):
    """Ends runs that come too late by themselves: a process that is killed on a shared GPU harms its neighbors."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def measured(self, epoch: Epoch) -> None:
        self.look()

    def look(self) -> None:
        """Ends the run if it is time."""
        if time.time() > self.deadline:
            raise TimeoutError("no time is left")


def described(way: str, seed: int, epochs: int | None) -> Run[Any]:
    """The recipe with an update and a seed."""
    run = RECIPES[RECIPE]()
    method = dataclasses.replace(run.method, update=way)
    return dataclasses.replace(run, method=method, seed=seed, epochs=epochs or run.epochs)


def trained(run: Run[Any], folder: Path, late: Late) -> Record:
    """The record of a run."""
    late.look()
    command = f"sparsegate train {RECIPE} --update {run.method.update} --epochs {run.epochs} --seed {run.seed}"
    return train(run, folder=folder, watch=late, command=command, save_every=run.epochs, pack=False)


def line(way: str, record: Record) -> str:
    """A run in one line."""
    return f"{way} {record.run['seed']}: {record.kept} kept, {record.test:.2f} %, {record.seconds:.0f} s"


def write(options: argparse.Namespace, found: dict[str, list[Record]]) -> None:
    """All that is known so far."""
    epochs = f" --epochs {options.epochs}" if options.epochs else ""
    epochs += f" --ways {' '.join(options.ways)}" if tuple(options.ways) != WAYS else ""
    seeds = " ".join(map(str, options.seeds))
    value = {
        "title": "LeNet-5 with gates in 32 and in 16 bits: the same accuracy?",
        "command": f"python benchmarks/small_state.py --processes {options.processes} --seeds {seeds}{epochs}",
        "machine": machine(),
        "versions": versions(),
        "ways": {way: summarised(records) for way, records in found.items() if records},
        "small less the others, test accuracy in points": lost(found),
        "runs": [record.to_json() for records in found.values() for record in in_order(records)],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(value, indent=1) + "\n")


def summarised(records: list[Record]) -> dict[str, Any]:
    """Accuracy and size over the seeds."""
    study = Study("", "", tuple(in_order(records)))
    return {
        name: vars(study.summary(lambda each, name=name: getattr(each, name)))
        for name in ("test", "kept")
    }


def lost(found: dict[str, list[Record]]) -> dict[str, Any]:
    """What the small state wins or loses, seed by seed."""
    tests = {
        way: {each.run["seed"]: each.test for each in records} for way, records in found.items()
    }
    gaps = {
        way: [
            round(tests["small"][seed] - tests[way][seed], 2)
            for seed in tests["small"]
            if seed in tests[way]
        ]
        for way in WAYS[:2]
    }
    return {way: {"by seed": each, **vars(Summary.of(each))} for way, each in gaps.items() if each}


def in_order(records: list[Record]) -> list[Record]:
    """By seed."""
    return sorted(records, key=lambda record: int(record.run["seed"]))


if __name__ == "__main__":
    main()
