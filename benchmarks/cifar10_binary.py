"""Writes CIFAR-10's six binary files from the losslessly packed arrays of a folder.

    python benchmarks/cifar10_binary.py FOLDER/cifar10 data/cifar10 --tool FOLDER/tools/medxz.py

The folder has train_0.medxz, train_1.medxz, test.medxz and labels.npz; the tool is the Python file
that unpacks them.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

PER_FILE = 10_000


def unpacked(tool: Path, path: Path) -> Any:
    """The images of one packed file, (count, 32, 32, 3)."""
    about = importlib.util.spec_from_file_location("medxz", tool)
    assert about is not None
    assert about.loader is not None
    module = importlib.util.module_from_spec(about)
    about.loader.exec_module(module)
    return module.decode(path.read_bytes())


def write(target: Path, name: str, images: Any, labels: Any) -> None:
    """One binary file: a label and the planes of an image, ten thousand times."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    content = np.concatenate([labels.astype(np.uint8)[:, None], planes], axis=1).tobytes()
    (target / name).write_bytes(content)
    print(f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--tool", type=Path, required=True)
    args = parser.parse_args()
    names = ("train_0.medxz", "train_1.medxz", "test.medxz")
    with ProcessPoolExecutor(len(names)) as workers:
        first, second, test = workers.map(
            unpacked, [args.tool] * len(names), [args.source / name for name in names]
        )
    with np.load(args.source / "labels.npz") as labels:
        train_labels, test_labels = (
            labels[name].reshape(-1) for name in sorted(labels.files, key=lambda n: "test" in n)
        )
    train = np.concatenate([first, second])
    args.target.mkdir(parents=True, exist_ok=True)
    for number in range(len(train) // PER_FILE):
        part = slice(number * PER_FILE, (number + 1) * PER_FILE)
        write(args.target, f"data_batch_{number + 1}.bin", train[part], train_labels[part])
    write(args.target, "test_batch.bin", test, test_labels)


if __name__ == "__main__":
    main()
