"""Sums, means, largest and smallest elements over any dimensions of any strides, as numpy has them."""

import ctypes
from math import prod

import numpy as np
import pytest

from sparsegate_runtime.engine.structures import Kind, Reduce

DIMS = ctypes.c_int64 * 6
GUARD = np.float32(-12345.5)
KINDS = (np.sum, np.mean, np.max, np.min)


def laid_out(random, shape):
    """Strides of a tensor whose dimensions have any order in memory, and its size."""
    strides, size = [0] * len(shape), 1
    for d in random.permutation(len(shape)):
        strides[d] = size
        size = size * shape[d] + int(random.integers(0, 3))
    return strides, size


def seen(memory, shape, strides):
    return np.lib.stride_tricks.as_strided(memory, shape, [4 * stride for stride in strides])


def reduce(guarded, view, way, kind, x, shape, strides, num_kept, out):
    """The content of the output, and what it should be."""
    before, (out_strides, size) = guarded.add(x), out
    after, want = guarded.add_empty(size), np.full(size, GUARD)
    views = view(before, strides), view(after, out_strides)
    share = 1 / max(1, int(np.prod(shape[num_kept:])))
    of = Reduce(kind, num_kept, len(shape) - num_kept, DIMS(*shape), *views, share, 0)
    guarded.run(Kind.REDUCE, of, way)
    axes = tuple(range(num_kept, len(shape)))
    seen(want, shape[:num_kept], out_strides)[...] = KINDS[kind](
        seen(x, shape, strides).astype(np.float64), axes
    )
    return guarded.content(after), want


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("case", range(20))
def test_any_layout(case, kind, guarded, view, way):
    random = np.random.default_rng(case)
    num_kept = int(random.integers(0, 4))
    shape = [int(random.choice([1, 2, 5, 18])) for _ in range(num_kept + random.integers(1, 3))]
    shape[int(random.integers(0, len(shape)))] = int(random.choice([35, 150]))
    strides, size = laid_out(random, shape)
    x = random.standard_normal(size).astype(np.float32)
    out = laid_out(random, shape[:num_kept])
    found, want = reduce(guarded, view, way, kind, x, shape, strides, num_kept, out)
    assert np.allclose(found, want, rtol=1e-5, atol=1e-6 * prod(shape[num_kept:]) ** 0.5)


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("strides", [(90, 1), (1, 50)])
def test_a_nan_is_the_result_of_its_row_only(strides, kind, guarded, view, way):
    x = np.random.default_rng(1).standard_normal(4500).astype(np.float32)
    rows = seen(x, (50, 90), strides)
    for column in (0, 17, 64, 89):
        rows[column // 2, column] = np.nan
    rows[3], rows[4, 5] = np.inf, -np.inf
    found, want = reduce(guarded, view, way, kind, x, [50, 90], strides, 1, ([1], 50))
    assert np.allclose(found, want, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("strides", [(1, 1), (1, 3)])
def test_a_long_sum_stays_exact(strides, guarded, view, way):
    shape = [3, 200_000]
    x = np.random.default_rng(2).uniform(0.5, 1, 600_000).astype(np.float32)
    found, want = reduce(guarded, view, way, 0, x, shape, strides, 1, ([1], 3))
    assert np.allclose(found, want, rtol=1e-6)
