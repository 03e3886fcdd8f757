"""The head of *.sg files: what tensors there are."""

from __future__ import annotations

from math import prod

import torch

from sparsegate.models import MODELS

from .bytestream import ByteReader, text, varint
from .tensors import TYPES

MAGIC = b"sg\x01"
CODES = list(TYPES)
MAX_LANES, MAX_TENSORS, MAX_DIMENSIONS, MAX_SIZE = 4096, 2**20, 64, 2**40
Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Type and shape of every tensor, in the file's order."""


def matching_model(shapes: Shapes) -> tuple[str, int] | None:
    """Name and number of classes of the registered model that has these tensors, in whatever order."""
    classes = list(shapes.values())[-1][1][:1] if shapes else ()
    for name in MODELS if classes else ():
        if registered(name, classes[0]) == shapes:
            return name, classes[0]
    return None


def registered(name: str, num_classes: int) -> Shapes:
    """The tensors of a registered model, in order."""
    with torch.device("meta"):
        state = MODELS[name](num_classes=num_classes).state_dict()
    return {key: ("F32", tuple(tensor.shape)) for key, tensor in state.items()}


def architecture(shapes: Shapes, model: tuple[str, int] | None) -> bytes:
    """The model's name and number of classes, or all names, types and shapes."""
    if model is not None:
        return text(model[0]) + varint(model[1])
    each = (
        text(name) + bytes([CODES.index(kind)]) + varint(len(shape)) + b"".join(map(varint, shape))
        for name, (kind, shape) in shapes.items()
    )
    return text("") + varint(len(shapes)) + b"".join(each)


def read_architecture(reader: ByteReader) -> Shapes:
    """The tensors that a head tells of."""
    if name := reader.text():
        return registered(name, reader.varint(2**20))
    shapes: Shapes = {}
    for _ in range(reader.varint(MAX_TENSORS)):
        key, code = reader.text(), reader.take(1)[0]
        shape = tuple(reader.varint(MAX_SIZE) for _ in range(reader.varint(MAX_DIMENSIONS)))
        if key in shapes or code >= len(CODES) or prod(shape) > MAX_SIZE:
            raise ValueError(f"the tensor {key!r} is there twice, or has an impossible type or shape {shape}")
        shapes[key] = (CODES[code], shape)
    return shapes
