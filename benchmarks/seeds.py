"""Trains a recipe with several seeds and writes the study: python benchmarks/seeds.py lenet5-method1 --seeds 0 1 2."""

from __future__ import annotations

import argparse
import dataclasses
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparsegate.record import Record
from sparsegate.reproduce import RECIPES
from sparsegate.study import Study
from sparsegate.train import Run, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="+", choices=list(RECIPES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--processes", type=int, default=1, help="runs at a time; more than one pays on a GPU")
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    runs = {
        name: [dataclasses.replace(RECIPES[name](), seed=seed) for seed in options.seeds] for name in options.recipes
    }
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        waiting = {
            name: [pool.submit(_trained, name, run, options.folder) for run in each] for name, each in runs.items()
        }
        for name, each in waiting.items():
            _report(name, tuple(one.result() for one in each), options.processes, options.results)


def _trained(name: str, run: Run[Any], folder: Path) -> Record:
    return train(run, folder=folder, command=f"sparsegate train {name} --seed {run.seed}")


def _report(name: str, records: tuple[Record, ...], processes: int, folder: Path) -> None:
    seeds = " ".join(str(record.run["seed"]) for record in records)
    title = (RECIPES[name].__doc__ or name).strip()
    command = f"python benchmarks/seeds.py {name} --seeds {seeds} --processes {processes}"
    study = Study(title, command, records)
    folder.mkdir(parents=True, exist_ok=True)
    study.save(folder / f"{name}.json")
    for record in records:
        seconds = record.seconds
        print(f"{name} {record.run['seed']}: {record.kept} ({record.rate:.1f}x) {record.test:.2f} % {seconds:.0f} s")


if __name__ == "__main__":
    main()
