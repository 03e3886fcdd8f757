"""Reads MNIST-format folders: four idx files, plain or compressed."""

from __future__ import annotations

import gzip
import lzma
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from .dataset import Dataset, Split

STEMS = {"train": "train", "test": "t10k"}
OPENERS: dict[str, Callable[[Path], bytes]] = {
    "": lambda path: path.read_bytes(),
    ".gz": lambda path: gzip.decompress(path.read_bytes()),
    ".xz": lambda path: lzma.decompress(path.read_bytes()),
}
UNSIGNED_BYTE = 0x08
CLASSES = "classes.txt"


def read_idx_folder(folder: Path) -> Dataset:
    """The dataset in `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and `t10k-...`.

    The files may be compressed: .gz or .xz. A text file `classes.txt` may name the classes, one on
    each line.
    """
    if not folder.is_dir():
        raise ValueError(
            f"there is no folder {folder}; expected one with the four idx files of a dataset"
        )
    data = Dataset.divided(_read_split(folder, STEMS["train"]), _read_split(folder, STEMS["test"]))
    return replace(data, class_names=_class_names(folder / CLASSES, data.num_classes))


def parse_idx(raw: bytes, name: str) -> UInt8[Tensor, "..."]:
    """The array in an idx file.

    The format: two zero bytes, type, number of dimensions, big-endian sizes, values.
    """
    if len(raw) < 4 or raw[:3] != bytes((0, 0, UNSIGNED_BYTE)):
        raise ValueError(
            f"{name} is not an idx file of unsigned bytes: expected it to start with 000008, got "
            f"{raw[:4].hex() or 'an empty file'}"
        )
    num_dimensions = raw[3]
    begin = 4 + 4 * num_dimensions
    if len(raw) < begin:
        raise ValueError(
            f"{name} is truncated: its header ends after {len(raw)} bytes; get the file again"
        )
    shape = struct.unpack(f">{num_dimensions}I", raw[4:begin])
    if len(raw) - begin != math.prod(shape):
        raise ValueError(
            f"{name} is truncated or damaged: expected {math.prod(shape)} bytes for the shape "
            f"{shape}, got {len(raw) - begin}; get the file again"
        )
    if math.prod(shape) == 0:
        raise ValueError(f"{name} is empty: its shape is {shape}")
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=begin).reshape(shape)


def _class_names(path: Path, count: int) -> tuple[str, ...]:
    if not path.exists():
        return ()
    try:
        names = tuple(path.read_text(encoding="utf-8").split("\n"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error})") from error
    names = tuple(name.strip() for name in names if name.strip())
    if len(names) != count:
        raise ValueError(
            f"{path}: expected {count} names of classes, one on each line, got {len(names)}"
        )
    return names


def _read_split(folder: Path, stem: str) -> Split:
    images = _read(folder, f"{stem}-images-idx3-ubyte")
    labels = _read(folder, f"{stem}-labels-idx1-ubyte")
    return make_split(images, labels, f"{folder}/{stem}-*")


def make_split(images: UInt8[Tensor, "..."], labels: UInt8[Tensor, "..."], where: str) -> Split:
    """One split of gray images with their labels, checked to belong together."""
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels) or len(labels) == 0:
        raise ValueError(
            f"{where}: expected images of shape (count, height, width) and labels of shape "
            f"(count,), got {tuple(images.shape)} and {tuple(labels.shape)}"
        )
    return Split(images[:, None], labels.long())


def _read(folder: Path, name: str) -> UInt8[Tensor, "..."]:
    for suffix, open_ in OPENERS.items():
        path = folder / (name + suffix)
        if path.exists():
            return parse_idx(_decompressed(path, open_), str(path))
    raise ValueError(f"{folder} has no {name} (nor {name}.gz, nor {name}.xz)")


def _decompressed(path: Path, open_: Callable[[Path], bytes]) -> bytes:
    try:
        return open_(path)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); get the file again") from error
