"""Trains recipes that have teachers with several seeds, and writes a study of each.

python benchmarks/many_seeds.py lenet5-300x lenet5-500x --seeds 0 1 2 3 4
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from sparsegate_lab.recipes import STUDENTS, train_students
from sparsegate_lab.study import Study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "recipes", nargs="+", choices=list(STUDENTS), help="those that agree are trained as one"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--epochs", type=int, help="instead of the recipes' own")
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    seeds = " ".join(map(str, options.seeds))
    command = f"python benchmarks/many_seeds.py {' '.join(options.recipes)} --seeds {seeds}"
    command += f" --epochs {options.epochs}" if options.epochs else ""
    students = {
        name: STUDENTS[name]().with_settings(epochs=options.epochs) for name in options.recipes
    }
    began = time.perf_counter()
    chosen = train_students(students, options.seeds, folder=options.folder, command=command)
    print(f"{time.perf_counter() - began:.0f} s with the teachers", flush=True)
    for name, records in chosen.items():
        study = Study((STUDENTS[name].__doc__ or name).strip(), command, tuple(records))
        study.save(options.results / f"{name}.json")
        test = study.summary(lambda record: record.test)
        kept = study.summary(lambda record: record.kept)
        print(f"{name}: {kept.mean:.0f} weights, test {test.mean:.3f} ± {test.spread:.3f} %")


if __name__ == "__main__":
    main()
