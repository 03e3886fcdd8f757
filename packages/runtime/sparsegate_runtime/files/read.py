"""Reads a network from a file as numpy arrays, without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .entry import Entry
from .limit import check_limit
from .sg.read import read_sg
from .sparse_safetensors import read_safetensors
from .types import Array, printable

SG_ENDING = ".sg"


@dataclass(frozen=True, eq=False)
class Tensors(Mapping[str, Array]):
    """The tensors of a file by name, as numpy arrays."""

    arrays: dict[str, Array]
    types: dict[str, str]
    """The element type of every tensor. Those of type BF16, F8_E4M3 and F8_E5M2, which numpy lacks,
    are arrays of unsigned integers with the same bits."""

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def read(path: Path | str, *, limit: int | None = None) -> Tensors:
    """Reads all tensors of an `.sg` or `.sparse.safetensors` file.

        from sparsegate_runtime.files import read
        weight = read("model.sg")["fc1.weight"]

    Args:
        path: The file. A name that ends in `.sg` means that format.
        limit: The most bytes of dense tensors to allocate. The default is half of the machine's
            memory, and at most 4096 times the size of the file or 256 MiB, whichever is more.

    Everything in the file is checked: a damaged or malicious one raises ValueError.

    """
    path = Path(path)
    entries, tied = read_entries(path, limit=limit)
    wanted = sum(entry.num_bytes for entry in entries.values())
    check_limit(wanted, limit, file_bytes=path.stat().st_size, file=str(path))
    arrays = {name: _array(path, name, entry) for name, entry in entries.items()}
    types = {name: entry.dtype for name, entry in entries.items()}
    arrays |= {name: arrays[owner] for name, owner in tied.items()}
    return Tensors(arrays, types | {name: types[owner] for name, owner in tied.items()})


def read_entries(
    path: Path, *, limit: int | None = None
) -> tuple[dict[str, Entry], dict[str, str]]:
    """The entries of a file, and its tied names, each with the name of its entry.

    An `.sg` file is decoded at once, within the limit. The entries of a `.sparse.safetensors` file
    are decoded when they are used.
    """
    if path.name.endswith(SG_ENDING):
        return read_sg(path, limit=limit)
    return read_safetensors(path)


def _array(path: Path, name: str, entry: Entry) -> Array:
    try:
        return entry.array()
    except ValueError as error:
        raise ValueError(f"{path}: {printable(name)} ({entry.format.name}): {error}") from error
