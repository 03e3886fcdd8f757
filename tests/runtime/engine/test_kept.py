"""Weights without their zeros."""

import numpy as np
import pytest

from sparsegate_runtime.engine.kept import KeptArray, entries, num_kept, smaller


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_a_kept_array_becomes_the_dense_one_again(share):
    random = np.random.default_rng(0)
    dense = random.normal(size=(7, 5, 3)).astype(np.float32) * (random.random((7, 5, 3)) < share)
    kept = KeptArray.of(dense)
    assert np.array_equal(np.asarray(kept), dense)
    assert (kept.shape, kept.size, kept.ndim, len(kept)) == (dense.shape, dense.size, 3, 7)
    assert num_kept(kept) == num_kept(dense) == np.count_nonzero(dense)
    for one, other in zip(entries(kept), entries(dense), strict=True):
        assert np.array_equal(one, other)


def test_positions_take_the_smaller_form():
    few, many = np.zeros((2, 100), np.float32), np.zeros((2, 100), np.float32)
    few[0, :2], many[:, :50] = 1, 1
    assert KeptArray.of(few).nbytes == 2 * 4 + 2 * 4
    assert KeptArray.of(many).nbytes == 100 * 4 + 200 // 8


def test_an_array_with_few_zeros_is_held_dense():
    dense = np.ones((4, 4), np.float32)
    assert isinstance(smaller(KeptArray.of(dense)), np.ndarray)
    dense[1:] = 0
    assert isinstance(smaller(KeptArray.of(dense)), KeptArray)
