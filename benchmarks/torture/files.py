"""The attack on readers of binary files: mutated files are refused by name, or read as described."""

from __future__ import annotations

import gzip
import lzma
import pickle
import re
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import safetensors.torch
import torch

from sparsegate.files import compress, load, read_state_dict
from sparsegate_lab.data.cifar import find_cifar
from sparsegate_lab.data.idx import OPENERS, parse_idx
from sparsegate_lab.data.idx import _decompressed as decompressed
from sparsegate_runtime.files import read

from .attack import FAULT, Attack, refusal
from .bytes_changes import PLAIN, Change
from .container_changes import SAFETENSORS, SG, signed
from .corpus import networks

CHECKSUM = re.compile(rb',"crc32":"[0-9a-f]{8}"')
LIMIT = 2**22
IMAGES = 3
"""Of a CIFAR batch."""
PICKLE_BYTES = (
    b"\x00\x01\x02\x7f\x80\x81\x85\x86\x87\x88\x89\x8c\x93\x94\xff()}]NbRcqhrj0123etuls.TUXBCV"
)
Read = Callable[[Path], str]
"""Reads a file, and returns the outcome if that did not raise."""


class Files(Attack):
    """Damages valid files of one kind and opens them."""

    patience = 120.0  # on a machine that is busy with other things
    memory = 2**30

    def __init__(
        self,
        title: str,
        ending: str,
        make: Callable[[Path], list[bytes]],
        changes: tuple[Change, ...],
        open_: Read,
        *,
        share: float = 1.0,
        sign: bool = False,
    ) -> None:
        self.title, self.share = title, share
        self._ending, self._make, self._changes = ending, make, changes
        self._open, self._sign = open_, sign
        self._files: list[bytes] = []

    def prepare(self, folder: Path) -> None:
        """Makes the files that are damaged."""
        self._path = folder / f"train{self._ending}"  # a name that CIFAR-100 has
        self._files = self._make(self._path)

    def attempt(self, draw: Random) -> str:
        """Damages a file, sometimes twice, and opens it."""
        content = draw.choice(self._files)
        for _ in range(draw.choice((1, 1, 1, 1, 2))):
            content = self._change(draw, content)
        if self._sign and draw.random() < 0.9:
            content = signed(content)
        self._path.write_bytes(content)
        try:
            return self._open(self._path)
        except ValueError as error:
            return refusal(error, self._path)

    def _change(self, draw: Random, content: bytes) -> bytes:
        try:
            return draw.choice(self._changes)(draw, content, self._files)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError):
            return draw.choice(PLAIN)(draw, content, self._files)  # damaged beyond structure


def packed(path: Path) -> list[bytes]:
    """Files of all networks of the corpus, without a checksum that would catch every change."""
    files = []
    for each in networks():
        compress(each).save(path)
        files.append(CHECKSUM.sub(_blank, path.read_bytes()))
    return files


def _blank(found: re.Match[bytes]) -> bytes:
    return b" " * len(found[0])


def open_packed(path: Path) -> str:
    """Reads a container by the library, or by the runtime without torch."""
    if path.stat().st_size % 2:
        read(path, limit=LIMIT)
        return "accepted"
    network = load(path, limit=LIMIT)
    found = network.state_dict(limit=LIMIT)
    str(network)
    shapes = {name: network.entries[network.same.get(name, name)].shape for name in network}
    same = {name: tuple(each.shape) for name, each in found.items()} == shapes
    return "accepted" if same else f"{FAULT}accepted with other shapes than described"


def plain_safetensors(path: Path) -> list[bytes]:
    """Files of the safetensors package."""
    return [safetensors.torch.save(_untied(each)) for each in networks()]


def pickled(path: Path) -> list[bytes]:
    """Files of torch.save, new and old."""
    files = []
    for each in networks():
        for new in (True, False):
            torch.save(each, path, _use_new_zipfile_serialization=new)
            files.append(path.read_bytes())
    return files


def open_state(path: Path) -> str:
    """Reads a state dict of another program."""
    found = read_state_dict(path)
    if not all(isinstance(each, torch.Tensor) for each in found.values()):
        return f"{FAULT}not a dictionary of tensors"
    return "accepted"


def idx(path: Path) -> list[bytes]:
    """Images and labels."""
    shapes = ((IMAGES, 28, 28), (IMAGES,), (1, 2, 3, 4))
    plain = [
        bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape)
        + bytes(range(256)) * (int(np.prod(shape)) // 256) + bytes(int(np.prod(shape)) % 256)
        for shape in shapes
    ]  # fmt: skip
    if path.suffix == ".gz":
        return [gzip.compress(each) for each in plain]
    return [lzma.compress(each) for each in plain] if path.suffix == ".xz" else plain


def open_idx(path: Path) -> str:
    """Reads one array."""
    found = parse_idx(decompressed(path, OPENERS[path.suffix]), str(path))
    return "accepted" if int(found.sum()) >= 0 else f"{FAULT}a negative sum of bytes"


def cifar_pickles(path: Path) -> list[bytes]:
    """Batches of CIFAR-100 in all protocols."""
    pixels = np.arange(IMAGES * 3072, dtype=np.uint16).astype(np.uint8).reshape(IMAGES, 3072)
    labels = [0, 3, 9]
    kinds = ({b"fine_labels": labels}, {b"labels": np.array(labels)}, {"fine_labels": labels})
    return [
        pickle.dumps({b"data": pixels, b"filenames": [b"a.png"], **kind}, protocol)
        for protocol in range(5)
        for kind in kinds
    ]


def pickle_opcodes(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """Opcodes and lengths outside of the pixels become others."""
    content = bytearray(file)
    edges = [*range(min(400, len(file))), *range(max(0, len(file) - 400), len(file))]
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        content[draw.choice(edges)] = draw.choice(PICKLE_BYTES)
    return bytes(content)


def open_cifar(path: Path) -> str:
    """Reads a folder with the file as CIFAR-100's training and test images."""
    (path.parent / "test").write_bytes(path.read_bytes())
    reader = find_cifar(path.parent)
    if reader is None:
        return f"{FAULT}the folder is not found to be CIFAR"
    data = reader()
    same = len(data.test.images) == len(data.test.labels)
    return "accepted" if same else f"{FAULT}images without labels"


def _untied(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: each.clone() for name, each in state.items()}


MUTATED = "mutated files:"
FILES: dict[str, Attack] = {
    "sg": Files(f"{MUTATED} .sg", ".sg", packed, SG, open_packed, share=2, sign=True),
    "sparse_safetensors": Files(
        f"{MUTATED} .sparse.safetensors", ".sparse.safetensors", packed, SAFETENSORS, open_packed,
        share=2,
    ),
    "safetensors": Files(
        f"{MUTATED} .safetensors", ".safetensors", plain_safetensors, SAFETENSORS, open_state,
        share=0.5,
    ),
    "pickles": Files(f"{MUTATED} .pt", ".pt", pickled, PLAIN, open_state, share=0.5),
    "idx": Files(f"{MUTATED} idx", "", idx, PLAIN, open_idx, share=0.3),
    "idx_gz": Files(f"{MUTATED} idx.gz", ".gz", idx, PLAIN, open_idx, share=0.3),
    "idx_xz": Files(f"{MUTATED} idx.xz", ".xz", idx, PLAIN, open_idx, share=0.3),
    "cifar": Files(
        f"{MUTATED} pickles of CIFAR", "", cifar_pickles, (*PLAIN, *(pickle_opcodes,) * 6),
        open_cifar, share=2,
    ),
}  # fmt: skip
