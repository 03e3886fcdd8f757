"""A small folder of digits to train on."""

from __future__ import annotations

import struct
from pathlib import Path

from torch import Tensor

from sparsegate_lab.data import mnist


def write_digits(folder: Path, count: int = 1000) -> Path:
    """Writes the first digits of MNIST, and a fifth of that number to test, as idx files."""
    folder.mkdir(parents=True, exist_ok=True)
    data = mnist()
    splits = (("train", data.train.part(0, count)), ("t10k", data.test.part(0, count // 5)))
    for stem, split in splits:
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(_as_idx(split.images[:, 0]))
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(_as_idx(split.labels))
    return folder


def _as_idx(values: Tensor) -> bytes:
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.byte().numpy().tobytes()
