"""Pointwise operations: every function as numpy has it in double precision, on any layout."""

import ctypes
import math

import numpy as np
import pytest

from sparsegate_runtime.engine.functions import Function
from sparsegate_runtime.engine.structures import (
    Instruction,
    Kind,
    Pointwise,
)

DIMS = ctypes.c_int64 * 6
GUARD = np.float32(-12345.5)
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 3e38, -3e38, 0.5, -0.5, 2.5]
erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-abs(x))), np.exp(-abs(x)) / (1 + np.exp(-abs(x))))


UNARY = {
    Function.COPY: lambda u: u,
    Function.RELU: lambda u: np.maximum(u, 0),
    Function.RELU6: lambda u: np.clip(u, 0, 6),
    Function.LEAKY_RELU: lambda u: np.where(u > 0, u, 0.25 * u),
    Function.ELU: lambda u: np.where(u > 0, u, 0.25 * np.expm1(np.minimum(u, 0))),
    Function.SIGMOID: sigmoid,
    Function.TANH: np.tanh,
    Function.SILU: lambda u: u * sigmoid(u),
    Function.HARD_SIGMOID: lambda u: np.clip(u / 6 + 0.5, 0, 1),
    Function.HARD_SWISH: lambda u: u * np.clip(u / 6 + 0.5, 0, 1),
    Function.SOFTPLUS: lambda u: np.maximum(u, 0) + np.log1p(np.exp(-abs(u))),
    Function.MISH: lambda u: u * np.tanh(np.maximum(u, 0) + np.log1p(np.exp(-abs(u)))),
    Function.EXP: np.exp,
    Function.LOG: np.log,
    Function.ERF: erf,
    Function.SQRT: np.sqrt,
    Function.RSQRT: lambda u: 1 / np.sqrt(u),
    Function.RECIPROCAL: lambda u: 1 / u,
    Function.ABS: abs,
    Function.NEG: lambda u: -u,
    Function.SQUARE: lambda u: u * u,
    Function.FLOOR: np.floor,
    Function.CEIL: np.ceil,
    Function.ROUND: np.round,
    Function.CLAMP: lambda u: np.clip(u, 0.25, 1.5),
    Function.AFFINE: lambda u: 0.25 * u + 1.5,
}
BINARY = {
    Function.ADD: np.add,
    Function.SUB: np.subtract,
    Function.MUL: np.multiply,
    Function.DIV: np.divide,
    Function.MAX: np.maximum,
    Function.MIN: np.minimum,
    Function.PRELU: lambda u, v: np.where(u > 0, u, u * v),
}
ROUGH = {
    Function.GELU: lambda u: u * (1 + erf(u / math.sqrt(2))) / 2,
    Function.GELU_TANH: lambda u: (
        u / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
    ),
    Function.SIN: np.sin,
    Function.COS: np.cos,
}
"""Functions whose absolute error counts."""


def operation(shape, views, out, code, *, result, inside=None):
    """A `Pointwise` of these instructions: (function, to, a, b, x, y)."""
    of = Pointwise(len(shape), DIMS(*shape), len(views), len(code), result)
    of.inputs[: len(views)] = views
    of.out = out
    of.code[: len(code)] = [Instruction(*one) for one in code]
    if inside is not None:
        of.inside, of.keep = inside.ctypes.data, (inside,)
    return of


def values(count):
    """Numbers of every size, and the special ones."""
    random = np.random.default_rng(0)
    sizes = np.concatenate(
        [random.uniform(-12, 12, count // 2), 10 ** random.uniform(-30, 2.5, count - count // 2)]
    )
    signed = sizes * random.choice([-1, 1], count)
    return np.concatenate([signed, SPECIAL]).astype(np.float32)


def result_of(guarded, view, way, function, *inputs, x=0.25, y=1.5):
    """The function applied to vectors."""
    count = len(inputs[0])
    views = [view(guarded.add(one), [1]) for one in inputs]
    out = guarded.add_empty(count)
    code = [(function, 0, 0, len(inputs) - 1, x, y)]
    of = operation([count], views, view(out, [1]), code, result=0)
    guarded.run(Kind.POINTWISE, of, way, end=count)
    return guarded.content(out)


@pytest.mark.parametrize("function", UNARY, ids=lambda one: one.name)
def test_a_function_is_within_a_millionth(function, guarded, view, way):
    source = values(3000)
    found = result_of(guarded, view, way, function, source)
    with np.errstate(all="ignore"):
        want = UNARY[function](source.astype(np.float64))
        rounded = want.astype(np.float32)
    if function in (Function.SILU, Function.MISH, Function.HARD_SWISH):
        known = source != -np.inf  # 0 or NaN, as torch
        source, found, want, rounded = source[known], found[known], want[known], rounded[known]
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    with np.errstate(all="ignore"):
        near = abs(found - want) <= 1e-6 * abs(want) + 1e-36
    assert (same | near).all(), (source[~(same | near)], found[~(same | near)])


@pytest.mark.parametrize("function", ROUGH, ids=lambda one: one.name)
def test_a_function_near_one_is_within_a_millionth_of_one(function, guarded, view, way):
    source = values(3000)
    source = source[np.isfinite(source) & (abs(source) < 1e5)]
    found = result_of(guarded, view, way, function, source)
    want = ROUGH[function](source.astype(np.float64))
    size = np.maximum(1, abs(source)) if function in (Function.GELU, Function.GELU_TANH) else 1
    assert (abs(found - want) <= 1e-6 * size).all()


@pytest.mark.parametrize("function", ROUGH, ids=lambda one: one.name)
def test_a_nan_stays_one_and_changes_no_neighbour(function, guarded, view, way):
    source = np.linspace(-3, 3, 77).astype(np.float32)
    source[20] = np.nan
    found = result_of(guarded, view, way, function, source)
    assert np.isnan(found).nonzero()[0].tolist() == [20]


def test_sines_of_large_and_very_large_angles(guarded, view, way):
    random = np.random.default_rng(1)
    source = np.concatenate([random.uniform(-1e5, 1e5, 500), [1e7, -3e12, 1e30, 1.0]])
    source = source.astype(np.float32)
    for function, want in ((Function.SIN, np.sin), (Function.COS, np.cos)):
        found = result_of(guarded, view, way, function, source)
        assert abs(found - want(source.astype(np.float64))).max() < 1e-6


def test_the_sign_of_nan_is_zero_as_in_torch(guarded, view, way):
    found = result_of(guarded, view, way, Function.SIGN, np.float32([3, -2, 0, np.nan, -np.inf]))
    assert found.tolist() == [1, -1, 0, 0, -1]


def test_halves_round_to_even(guarded, view, way):
    source = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 8388607.5, 1e20])
    found = result_of(guarded, view, way, Function.ROUND, source)
    assert found.tolist() == np.round(source).tolist()


def test_tanh_and_erf_stay_within_one(guarded, view, way):
    source = np.linspace(2, 12, 5000).astype(np.float32)
    for function in (Function.TANH, Function.ERF):
        assert result_of(guarded, view, way, function, source).max() <= 1


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 7, 0.5, -0.5, 1.5, 2.2, 100])
def test_powers(exponent, guarded, view, way):
    source = np.random.default_rng(2).uniform(0.2, 3, 50).astype(np.float32)
    if exponent == int(exponent):
        source[::2] *= -1
    found = result_of(guarded, view, way, Function.POW, source, x=exponent)
    with np.errstate(all="ignore"):
        want = source.astype(np.float64) ** np.float64(np.float32(exponent))
        want = want.astype(np.float32)
    assert np.allclose(found, want, rtol=1e-6, atol=0)


@pytest.mark.parametrize("function", BINARY, ids=lambda one: one.name)
def test_a_function_of_two(function, guarded, view, way):
    source = values(500)
    other = source[np.random.default_rng(3).permutation(len(source))]
    found = result_of(guarded, view, way, function, source, other)
    with np.errstate(all="ignore"):
        want = BINARY[function](source, other)
    assert np.allclose(found, want, rtol=1e-6, atol=1e-38, equal_nan=True)


def laid_out(random, shape, gaps):
    """Strides of a tensor with neighbors in its last dimension, and its size."""
    strides, size = [0] * len(shape), 1
    for d in (len(shape) - 1, *random.permutation(len(shape) - 1)):
        strides[d] = size
        size = size * shape[d] + gaps * int(random.integers(0, 20))
    return strides, size


def seen(memory, shape, strides):
    return np.lib.stride_tricks.as_strided(memory, shape, [4 * stride for stride in strides])


def drawn_input(random, shape, gaps):
    """Strides and size of an input: like the output, repeated along some dimensions, or turned."""
    kind = random.integers(0, 3)
    if kind == 2:
        strides, size = laid_out(random, shape[::-1], gaps)
        return strides[::-1], size
    strides, size = laid_out(random, shape, gaps)
    return [stride * int(kind == 0 or random.integers(0, 2)) for stride in strides], size


@pytest.mark.parametrize("case", range(40))
def test_any_layout_any_range(case, guarded, view, way):
    random = np.random.default_rng(case)
    shape = [int(random.choice([1, 2, 3, 7])) for _ in range(random.integers(0, 4))]
    shape.append(int(random.choice([1, 5, 16, 33, 600, 1100, 20000 // (1 + case % 2 * 30)])))
    whole = case % 3
    begin = 0 if whole else int(random.integers(0, shape[-1]))
    end = shape[-1] if whole else int(random.integers(begin, shape[-1] + 1))
    inputs, views = [], []
    for _ in range(3):
        strides, size = drawn_input(random, shape, case % 2)
        memory = random.standard_normal(size).astype(np.float32)
        inputs.append(seen(memory, shape, strides))
        views.append(view(guarded.add(memory), strides))
    out_strides, size = laid_out(random, shape, case % 2)
    out = guarded.add_empty(size)
    inside = -random.integers(0, 2, shape[-1]).astype(np.int32) if case % 4 == 0 else None
    code = [(Function.ADD, 3, 0, 1, 0, 0), (Function.RELU, 1, 3, 0, 0, 0)]
    code += [(Function.MUL, 4, 1, 2, 0, 0), (Function.SUB, 3, 4, 0, 0, 0)]
    count, result = ((1, 3), (4, 3), (4, 4), (3, 4))[case % 4]
    of = operation(shape, views, view(out, out_strides), code[:count], result=result, inside=inside)
    guarded.run(Kind.POINTWISE, of, way, begin=begin, end=end)
    one, two, three = inputs
    total = one + two
    product = np.maximum(total, 0) * three
    values = (total, product - one, product, product)[case % 4]
    if inside is not None:
        values = np.where(inside, values, 0)
    want = np.full(size, GUARD)
    seen(want, shape, out_strides)[..., begin:end] = values[..., begin:end]
    assert np.allclose(guarded.content(out), want, rtol=1e-5, atol=1e-6)


def test_an_input_that_is_repeated_can_be_the_result(guarded, view, way):
    source, out = guarded.add(np.float32([3, 4])), guarded.add_empty(2 * 37)
    of = operation([2, 37], [view(source, [1, 0])], view(out, [37, 1]), [], result=0)
    guarded.run(Kind.POINTWISE, of, way, end=37)
    assert np.array_equal(guarded.content(out), np.repeat(np.float32([3, 4]), 37))


def test_the_output_can_be_an_input(guarded, view, way):
    random = np.random.default_rng(5)
    first, second = random.standard_normal((2, 3, 1000)).astype(np.float32)
    one, two = guarded.add(first), guarded.add(second)
    code = [(Function.MUL, 1, 0, 1, 0, 0), (Function.ADD, 1, 0, 1, 0, 0)]
    views = [view(one, [1000, 1]), view(two, [1000, 1])]
    of = operation([3, 1000], views, view(one, [1000, 1]), code, result=1)
    guarded.run(Kind.POINTWISE, of, way, end=1000)
    want = (first + first * second).reshape(-1)
    assert np.allclose(guarded.content(one), want, rtol=1e-6, atol=1e-6)
