"""The head of *.sg files: what tensors there are."""

from __future__ import annotations

from functools import cache
from math import prod

import torch

from sparsegate_lab.models import MODELS

from ..tensors import TYPES, type_name
from .bytestream import ByteReader, text, varint

VERSION = 2
MAGIC = b"sg" + bytes([VERSION])
CODES = list(TYPES)
LISTED, NAMED = 0, 1  # and beyond: the number of the model
NUMBERED = ("lenet5", "lenet300")
"""Models that a file names by a number; only ever add to the end."""
MAX_LANES, MAX_TENSORS, MAX_DIMENSIONS, MAX_SIZE, MAX_CLASSES = 2**16, 2**20, 64, 2**40, 2**20
Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Type and shape of every tensor, in the file's order."""


def matching_model(shapes: Shapes) -> tuple[str, int] | None:
    """Name and number of classes of the registered model that has these tensors, in whatever order."""
    classes = list(shapes.values())[-1][1][:1] if shapes else ()
    for name in MODELS if classes else ():
        if shapes.keys() == _names_of(name) and registered(name, classes[0]) == shapes:
            return name, classes[0]
    return None


def registered(name: str, num_classes: int) -> Shapes:
    """The tensors of a registered model, in order."""
    with torch.device("meta"):
        state = MODELS[name](num_classes=num_classes).state_dict()
    return {key: (type_name(tensor), tuple(tensor.shape)) for key, tensor in state.items()}


@cache
def _names_of(name: str) -> frozenset[str]:
    """The names of a registered model's tensors, remembered: building them all takes a tenth of a second."""
    return frozenset(registered(name, 2))


def architecture(shapes: Shapes, model: tuple[str, int] | None) -> bytes:
    """The model's name and number of classes, or all names, types and shapes."""
    if model is not None:
        name, num_classes = model
        numbered = name in NUMBERED
        return (
            varint(2 + NUMBERED.index(name)) if numbered else varint(NAMED) + text(name)
        ) + varint(num_classes)
    each = (
        text(name) + bytes([CODES.index(kind)]) + varint(len(shape)) + b"".join(map(varint, shape))
        for name, (kind, shape) in shapes.items()
    )
    return varint(LISTED) + varint(len(shapes)) + b"".join(each)


def read_architecture(reader: ByteReader) -> Shapes:
    """The tensors that a head tells of."""
    kind = reader.varint(1 + len(NUMBERED))
    if kind != LISTED:
        name = reader.text() if kind == NAMED else NUMBERED[kind - 2]
        return registered(name, reader.varint(MAX_CLASSES))
    shapes: Shapes = {}
    for _ in range(reader.varint(MAX_TENSORS)):
        key, code = reader.text(), reader.take(1)[0]
        shape = tuple(reader.varint(MAX_SIZE) for _ in range(reader.varint(MAX_DIMENSIONS)))
        if key in shapes or code >= len(CODES) or prod(shape) > MAX_SIZE:
            raise ValueError(
                f"the tensor {key!r} is there twice, or has an impossible type or shape {shape}"
            )
        shapes[key] = (CODES[code], shape)
    return shapes
