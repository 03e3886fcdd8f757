"""Makes idx files of the 1,797 small digits in scikit-learn's wheel: python benchmarks/digits_idx.py WHEEL FOLDER.

They serve as data on which no setting was chosen. `pip download --no-deps scikit-learn` gets the
wheel; the digits are scanned ones of 8 by 8 pixels (Alpaydin and Kaynak, 1998), written here as 28
by 28. The last 397 are the test.
"""

from __future__ import annotations

import argparse
import gzip
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CSV = "sklearn/datasets/data/digits.csv.gz"
NUM_TRAIN = 1400


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    with zipfile.ZipFile(options.wheel) as wheel:
        lines = gzip.decompress(wheel.read(CSV)).decode().splitlines()
    rows = np.array([[float(number) for number in line.split(",")] for line in lines])
    images = np.pad(
        rows[:, :64].reshape(-1, 8, 8).repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2))
    )
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", slice(NUM_TRAIN)), ("t10k", slice(NUM_TRAIN, None))):
        write(
            options.folder / f"{name}-images-idx3-ubyte", (images[part] * 15).astype(np.uint8)
        )  # 16 shades
        write(options.folder / f"{name}-labels-idx1-ubyte", rows[part, 64].astype(np.uint8))


def write(path: Path, values: NDArray[np.uint8]) -> None:
    """An idx file: type, dimensions, bytes."""
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    path.write_bytes(bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes())


if __name__ == "__main__":
    main()
