"""Trains a dense network and a sparse one with it as teacher, compiled and not, and writes their losses as JSON.

A process of its own, because torch.compile cannot trace the checks of signatures that the tests
install.
"""

import dataclasses
import json
import sys
from pathlib import Path

from sparsegate.target import Target
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, Teacher, train


def trained(folder: Path, digits: str, *, compiled: bool) -> list[Record]:
    dense = Run(
        model="lenet300", data=digits, epochs=2, batch_size=100, method=Dense(), compile=compiled
    )
    runs = [train(dense, folder=folder, command="", pack=False)]
    begun = str(folder / dense.name)
    method = LearnedGates(target=Target(keep=0.2), graded=True)
    sparse = dataclasses.replace(
        dense, method=method, weights=begun, distil=Teacher(begun, share=0.9)
    )
    return [*runs, train(sparse, folder=folder, command="", pack=False)]


def main() -> None:
    folder, digits = Path(sys.argv[1]), sys.argv[2]
    found = {
        str(each): trained(folder / str(each), digits, compiled=each) for each in (False, True)
    }
    told = {
        way: [[each.epochs[-1].loss, each.kept] for each in runs] for way, runs in found.items()
    }
    (folder / "found.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
