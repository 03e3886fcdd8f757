"""Trains a small network by every method, one after the other; started with two processes, which share each run.

Arguments: the folder of the digits and the folder for the runs.
"""

import sys
from pathlib import Path

from sparsegate_lab.methods import METHODS
from sparsegate_lab.train import Run, leave_group, train


def main() -> None:
    digits, folder = sys.argv[1:]
    for name, kind in METHODS.items():
        run = Run(model="lenet300", data=digits, method=kind(), epochs=4, batch_size=30)
        train(run, folder=Path(folder) / name)
    leave_group()


if __name__ == "__main__":
    main()
