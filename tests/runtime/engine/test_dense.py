"""Dense products, against numpy in float64."""

import ctypes

import numpy as np
import pytest

from sparsegate_runtime.engine.functions import Function
from sparsegate_runtime.engine.structures import (
    DenseMultiply,
    Finish,
    Instruction,
    Kind,
    Place,
    Pointwise,
)

GUARD = np.float32(-12345.5)
GROUP = 4
SHAPES = [  # rows, inputs, begin, end, block
    (1, 1, 0, 1, 0),
    (4, 16, 0, 16, 0),
    (7, 30, 3, 40, 8),
    (13, 50, 5, 105, 50),
    (33, 20, 0, 97, 7),
    (6, 9, 10, 219, 4),
    (5, 12, 0, 49, 100),
    (8, 3, 2, 2, 0),
]
shapes = pytest.mark.parametrize(("rows", "inputs", "begin", "end", "block"), SHAPES)


def packed(weight):
    """Weights [rows, inputs] by groups: [group][input][row of the group], zero beyond the last."""
    rows, inputs = weight.shape
    wide = np.zeros((-(-rows // GROUP) * GROUP, inputs), np.float32)
    wide[:rows] = weight
    return np.ascontiguousarray(wide.reshape(-1, GROUP, inputs).transpose(0, 2, 1))


class Case:
    """A random product whose inputs are channels of positions, read at shifted positions."""

    def __init__(self, rows, inputs, begin, end, block):
        self.random = random = np.random.default_rng(rows)
        self.rows, self.inputs, self.block = rows, inputs, block
        self.begin, self.end = begin, end
        self.stride = end + 9
        self.weight = random.standard_normal((rows, inputs)).astype(np.float32)
        self.bias = random.standard_normal(rows).astype(np.float32)
        self.source = random.standard_normal((inputs, self.stride)).astype(np.float32)
        self.shift = random.integers(-min(begin, 3), 9, inputs)
        self.least, self.inside = -np.inf, None

    def sums(self):
        """In float64, [rows, positions of the step]."""
        columns = [
            line[self.begin + shift : self.end + shift]
            for line, shift in zip(self.source.astype(np.float64), self.shift, strict=True)
        ]
        sums = self.weight.astype(np.float64) @ np.stack(columns) + self.bias[:, None]
        sums = np.maximum(sums, self.least)
        return sums if self.inside is None else sums * (self.inside[self.begin :] != 0)

    def got(self, guarded, way, then=None):
        """The engine's result; fails if other positions were written."""
        shifts = 4 * (np.arange(self.inputs) * self.stride + self.shift)
        offset, weight = shifts.astype(np.int32), packed(self.weight)
        before, after = guarded.add(self.source), guarded.add_empty(self.rows * self.stride)
        inside = None if self.inside is None else self.inside.ctypes.data
        dense = DenseMultiply(
            self.rows,
            self.inputs,
            GROUP,
            offset.ctypes.data,
            weight.ctypes.data,
            self.bias.ctypes.data,
            Place(before, 0, self.stride),
            Place(after, 0, self.stride),
            Finish(self.least, 0, inside, None if then is None else ctypes.addressof(then)),
            self.block,
        )
        guarded.run(Kind.DENSE_MULTIPLY, dense, way, begin=self.begin, end=self.end)
        got = guarded.content(after).reshape(self.rows, self.stride)
        assert (got[:, : self.begin] == GUARD).all()
        assert (got[:, self.end :] == GUARD).all()
        return got[:, self.begin : self.end]

    def check(self, got, want):
        """Compares every element."""
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6 * self.inputs**0.5)


@shapes
def test_a_dense_product_is_that_of_numpy(rows, inputs, begin, end, block, guarded, way):
    case = Case(rows, inputs, begin, end, block)
    case.check(case.got(guarded, way), case.sums())


@shapes
def test_sums_have_a_lower_bound_and_are_zero_outside(
    rows, inputs, begin, end, block, guarded, way
):
    case = Case(rows, inputs, begin, end, block)
    case.least = 0.25
    case.inside = np.where(case.random.random(end) < 0.6, -1, 0).astype(np.int32)
    case.check(case.got(guarded, way), case.sums())


@shapes
def test_a_pointwise_operation_follows_the_sums(
    rows, inputs, begin, end, block, guarded, view, way
):
    case = Case(rows, inputs, begin, end, block)
    case.least = 0
    summand = case.random.standard_normal((rows, case.stride)).astype(np.float32)
    number = guarded.add(summand)
    then = Pointwise(dims=2, num_inputs=2, num_code=1, result=0)
    then.inputs[1] = view(number, (case.stride, 1))
    then.code[0] = Instruction(Function.ADD, 0, 0, 1)
    case.check(case.got(guarded, way, then), case.sums() + summand[:, begin:end])


def test_a_nan_stays_at_its_position(guarded, way):
    case = Case(7, 30, 3, 40, 8)
    case.least, case.shift = 0, np.zeros(30, np.int64)
    want = case.sums()
    case.source[4, 20] = np.nan
    got = case.got(guarded, way)
    assert np.isnan(got[:, 17]).all()
    case.check(np.delete(got, 17, 1), np.delete(want, 17, 1))
