"""Softmax and log softmax over the last dimension, whatever its strides, as numpy has them."""

import ctypes

import numpy as np
import pytest

from sparsegate_runtime.engine.structures import Kind, Softmax

DIMS = ctypes.c_int64 * 6
GUARD = np.float32(-12345.5)


def laid_out(random, shape, last):
    """Strides of a tensor whose dimension `last` has neighbors, others in any order, and its size."""
    strides, size = [0] * len(shape), 1
    for d in sorted(random.permutation(len(shape)), key=lambda d: d != last):
        strides[d] = size
        size = size * shape[d] + int(random.integers(0, 3))
    return strides, size


def seen(memory, shape, strides):
    return np.lib.stride_tricks.as_strided(memory, shape, [4 * stride for stride in strides])


def softmax(x, *, log):
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        away = x - x.max(-1, keepdims=True)
        total = np.exp(away).sum(-1, keepdims=True)
        return away - np.log(total) if log else np.exp(away) / total


def check(guarded, view, way, x_memory, shape, strides, *, log, out=None):
    """Runs a softmax and compares it; `out` are strides and size, or None for in place."""
    before = guarded.add(x_memory)
    out_strides, size = out or (strides, len(x_memory))
    after = guarded.add_empty(size) if out else before
    want = np.full(size, GUARD) if out else x_memory.copy()
    views = view(before, strides), view(after, out_strides)
    guarded.run(Kind.SOFTMAX, Softmax(len(shape), DIMS(*shape), log, *views), way)
    seen(want, shape, out_strides)[...] = softmax(seen(x_memory, shape, strides), log=log)
    assert np.allclose(guarded.content(after), want, rtol=2e-6, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("log", [0, 1])
@pytest.mark.parametrize("case", range(24))
def test_any_layout(case, log, guarded, view, way):
    random = np.random.default_rng(case)
    shape = [int(random.choice([1, 2, 5, 18, 70])) for _ in range(random.integers(1, 4))]
    last = len(shape) - 1
    layouts = []
    for _ in range(2):
        neighbours = (last, 0, int(random.integers(0, len(shape))))[case % 3]
        layouts.append(laid_out(random, shape, neighbours))
    (strides, size), out = layouts
    x = (random.standard_normal(size) * 8).astype(np.float32)
    check(guarded, view, way, x, shape, strides, log=log, out=out if case % 4 else None)


@pytest.mark.parametrize("strides", [(40, 1), (1, 50)])
@pytest.mark.parametrize("log", [0, 1])
def test_infinities_and_nan_stay_in_their_rows(strides, log, guarded, view, way):
    x = np.random.default_rng(1).standard_normal(2000).astype(np.float32)
    rows = seen(x, (50, 40), strides)
    rows[3, 5], rows[4, 6], rows[7, 2:30] = np.nan, np.inf, -np.inf
    rows[9] = -np.inf
    rows[11], rows[12, 39] = 1000, 1e30
    check(guarded, view, way, x, (50, 40), strides, log=log)
