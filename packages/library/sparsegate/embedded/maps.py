"""Writes functions of elements in C: of floats as expressions, of 8-bit values as tables."""

from __future__ import annotations

import math

import numpy as np
import torch

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from . import kernels as k
from .functions import expression
from .loops import broadcast_strides, dense_strides, nest
from .moves import as_int8
from .nodes import TensorScale
from .reference import apply
from .rows import factor_and_shift
from .writer import Writer

SUMS = (Function.ADD, Function.SUB)
MOST_BITS = 22
"""Bits of a factor: two products with 9-bit values fit into 32 bits."""


def function(writer: Writer, node: n.Node) -> list[str]:
    """A function of the elements of one or two tensors."""
    assert isinstance(node, n.Map)
    scale = writer.scale(node)
    if scale is None:
        return _in_floats(writer, node)
    if len(node.inputs) == 1:
        return _by_table(writer, node, scale)
    return _in_integers(writer, node, scale)


def _in_floats(writer: Writer, node: n.Map) -> list[str]:
    text = expression(node.function, node.x, node.y)
    for name, function_text in (("bounded", k.BOUNDED), ("sigmoid", k.SIGMOID)):
        if f"{name}(" in text:
            writer.need(name, function_text)
    return _loops(writer, node, text, "float")


def _loops(writer: Writer, node: n.Map, text: str, c_type: str) -> list[str]:
    letters = "pq"[: len(node.inputs)]
    lines = [
        f"const {writer.c_type(read)} *{letter} = {writer.pointer(read)};"
        for letter, read in zip(letters, node.inputs, strict=True)
    ]

    def inside(at: list[str]) -> list[str]:
        values = [
            f"const {c_type} {name} = {letter}[{index}];"
            for name, letter, index in zip("ab", letters, at[1:], strict=False)
        ]
        return [*values, f"y[{at[0]}] = {text};"]

    strides = [broadcast_strides(read.shape, node.shape) for read in node.inputs]
    loops = nest(node.shape, [dense_strides(node.shape), *strides], inside)
    return [*lines, f"{writer.c_type(node)} *y = {writer.pointer(node)};", *loops]


def _by_table(writer: Writer, node: n.Map, target: TensorScale) -> list[str]:
    source = writer.scale(node.inputs[0])
    assert source is not None
    inputs = torch.from_numpy(source.step * (np.arange(-128, 128) - source.zero))
    results = apply(node.function, node.x, node.y, inputs).numpy()
    table = writer.array(as_int8(results, target))
    return _loops(writer, node, f"{table}[a + 128]", "int32_t")


def _in_integers(writer: Writer, node: n.Map, target: TensorScale) -> list[str]:
    writer.need("rescaled", k.RESCALED)
    one, other = (writer.scale(read) for read in node.inputs)
    assert one is not None
    assert other is not None
    a, b = f"(a - {one.zero})", f"(b - {other.zero})"
    if node.function in SUMS:
        largest = max(one.step, other.step) / target.step
        shift = MOST_BITS - max(0, math.ceil(math.log2(largest)) + 1)
        if shift < 1:
            raise ValueError("a sum of 8-bit values cancels too much; export fp32")
        sign = "-" if node.function == Function.SUB else "+"
        factors = [round(scale.step / target.step * 2**shift) for scale in (one, other)]
        total = f"{a} * {factors[0]} {sign} {b} * {factors[1]} + {1 << (shift - 1)}"
        result = f"(({total}) >> {shift})"
    else:
        factor, shift = factor_and_shift(one.step * other.step / target.step)
        result = f"rescaled({a} * {b}, {factor}, {shift})"
    text = f"within({result} + {target.zero}, -128, 127)"
    return _loops(writer, node, text, "int32_t")
