"""Reads the tensors' description in *.sg files of version 2, which may name a model instead."""

from __future__ import annotations

from collections.abc import Callable

from ..types import check_shape
from .bytestream import ByteReader
from .shapes import CODES, MAX_SIZE, MAX_TENSORS, Shapes

LISTED, NAMED = 0, 1
NUMBERED = ("lenet5", "lenet300")
"""Models that a file states as 2 and 3."""
MAX_CLASSES = 2**20
GROUP = "sparsegate.architectures"
"""The entry points that load a module which calls `register_architectures`."""
Architecture = Callable[[int], Shapes]
"""Makes the names, types and shapes of a model's tensors from its number of classes."""

_registered: dict[str, Architecture] = {}


def register_architectures(architectures: dict[str, Architecture]) -> None:
    """Makes files of version 2 that name these models readable."""
    _registered.update(architectures)


def read_shapes_v2(reader: ByteReader) -> Shapes:
    """The tensors' names, types and shapes."""
    kind = reader.varint(1 + len(NUMBERED))
    if kind != LISTED:
        name = reader.text() if kind == NAMED else NUMBERED[kind - 2]
        return _architecture(name)(reader.varint(MAX_CLASSES))
    shapes: Shapes = {}
    for _ in range(reader.varint(MAX_TENSORS)):
        key, code = reader.text(), reader.take(1)[0]
        shape = tuple(reader.varint(MAX_SIZE) for _ in range(reader.varint(64)))
        if key in shapes or code >= len(CODES):
            raise ValueError(f"the tensor {key!r} is there twice, or has an unknown type")
        check_shape(key, shape)
        shapes[key] = (CODES[code], shape)
    return shapes


def _architecture(name: str) -> Architecture:
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    for point in entry_points(group=GROUP) if name not in _registered else ():
        try:
            point.load()
        except ImportError:
            continue  # the error below says what to install
    if name not in _registered:
        raise ValueError(
            f"a file of version 2 that names the model {name!r} instead of listing its tensors "
            "needs the package sparsegate-lab; install it, load the file and save it again"
        )
    return _registered[name]
