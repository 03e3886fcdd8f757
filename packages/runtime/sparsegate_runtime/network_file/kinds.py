"""The kinds of nodes that a network file can have, with their fields in the order of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .fields import (
    Byte,
    Field,
    FunctionField,
    Numbers,
    OptionalTensor,
    PairsField,
    RuleField,
    ShapeField,
    Single,
    SizeField,
    TensorField,
    Text,
)

MOST_READS = 4096
TYPES = ("F32", "I64", "BOOL")
"""Types of inputs and constants, by number."""


@dataclass(frozen=True)
class Kind:
    """A kind of node."""

    name: str
    reads: tuple[int, int]
    """The fewest and the most nodes that it reads."""
    fields: Mapping[str, Field]


def _kind(title: str, least: int, most: int | None = None, /, **fields: Field) -> Kind:
    return Kind(title, (least, least if most is None else most), fields)


TWO, POSITIVE = Numbers(2), Numbers(2, least=1)
ONE = Numbers(1)
LAYER = {"weight": TensorField(), "factors": OptionalTensor(), "bias": OptionalTensor()}

KINDS: tuple[Kind, ...] = (
    _kind("input", 0, name=Text(), type=Byte(2), shape=ShapeField()),
    _kind("constant", 0, value=TensorField()),
    _kind("linear", 1, **LAYER),
    _kind(
        "conv",
        1,
        **LAYER,
        stride=POSITIVE,
        padding=Numbers(4, least=-1),
        dilation=POSITIVE,
        groups=Numbers(1, least=1),
    ),
    _kind(
        "transposed conv",
        1,
        **LAYER,
        stride=POSITIVE,
        padding=TWO,
        dilation=POSITIVE,
        groups=Numbers(1, least=1),
        extra=TWO,
    ),
    _kind("function", 1, 2, function=FunctionField()),
    _kind("reshape", 1, shape=ShapeField()),
    _kind("permute", 1, dimensions=Numbers(None)),
    _kind("slice", 1, dimension=ONE, start=SizeField(), step=Numbers(1, least=1), size=SizeField()),
    _kind("expand", 1, shape=ShapeField()),
    _kind("join", 1, MOST_READS, dimension=ONE),
    _kind("pad", 1, sides=PairsField(), value=Single()),
    _kind(
        "layer norm", 1, weight=OptionalTensor(), bias=OptionalTensor(), eps=Single(), rms=Byte(1)
    ),
    _kind(
        "group norm",
        1,
        weight=OptionalTensor(),
        bias=OptionalTensor(),
        eps=Single(),
        groups=Numbers(1, least=1),
    ),
    _kind("softmax", 1, dimension=ONE, log=Byte(1)),
    _kind("product", 2),
    _kind("attention", 3, 4, causal=Byte(1), scale=Single()),
    _kind("reduce", 1, function=Byte(3), dimensions=Numbers(None)),
    _kind(
        "pool",
        1,
        largest=Byte(1),
        kernel=POSITIVE,
        stride=POSITIVE,
        padding=TWO,
        dilation=POSITIVE,
        counts_padding=Byte(1),
        divisor=ONE,
    ),
    _kind(
        "resize",
        1,
        lines=SizeField(),
        line_rule=RuleField(),
        pixels=SizeField(),
        pixel_rule=RuleField(),
    ),
    _kind("embedding", 1, table=TensorField()),
    _kind(
        "recurrent",
        1,
        cell=Byte(3),
        reverse=Byte(1),
        weight=TensorField(),
        bias=OptionalTensor(),
    ),
    _kind("cast", 1),
)
NUMBERS = {kind.name: number for number, kind in enumerate(KINDS)}
"""The number of each kind in files."""
