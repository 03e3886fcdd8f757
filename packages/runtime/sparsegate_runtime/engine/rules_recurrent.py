"""Lowers recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import network as n
from . import structures as c
from .kept import entries
from .matrix import LANES, CRows, CSlices, Rows, Slices, Weights
from .planner import Planner
from .structures import Kind
from .tensor import SLACK, Tensor

FEW = 4
"""From this number of images on, sixteen at a time are faster."""
MOST_COLUMNS = 2**16
"""Columns that a matrix of slices can have."""


def recurrent(planner: Planner, node: n.Recurrent) -> Tensor:
    """All steps, on tensors whose units are neighbors."""
    source = planner.values[node.inputs[0]]
    if source.strides[2] != 1 or source.buffer.slot:
        source = planner.copy(source, planner.new(source.shape, range(3)))
    out = planner.new(node.shape, range(3))
    images, steps, hidden = node.shape
    single = images < FEW and hidden <= MOST_COLUMNS
    matrix = packed(node, single=single)
    bias = np.zeros(len(node.weight), np.float32) if node.bias is None else node.bias
    bias = np.ascontiguousarray(bias, np.float32)

    def make() -> c.Structure:
        made = c.RecurrentSteps(
            n.CELLS.index(node.cell),
            hidden,
            len(node.weight),
            steps,
            images,
            int(node.reverse),
            int(single),
            matrix.as_c() if isinstance(matrix, Rows) else CRows(),
            matrix.as_c() if isinstance(matrix, Slices) else CSlices(),
            bias.ctypes.data,
            source.view(),
            out.view(),
        )
        made.keep = (matrix, bias)
        return made

    lanes = 1 if single else LANES
    scratch = lanes * (4 * hidden + 2 * len(node.weight)) + 8 * SLACK
    planner.emit(Kind.RECURRENT, make, [source], out, name=node.name, scratch=scratch)
    return out


def packed(node: n.Recurrent, *, single: bool) -> Rows | Slices:
    """The recurrent matrix in the form that one image, or sixteen, need."""
    row, column, value = entries(node.weight)
    weights = Weights(row, column, value, len(node.weight))
    if single:
        return Slices.of(weights)
    return Rows.of(weights, 4 * LANES * column, column * 0)


RULES: dict[type[n.Node], Any] = {n.Recurrent: recurrent}
