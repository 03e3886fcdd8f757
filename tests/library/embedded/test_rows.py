"""Rows of weights read back as they were, however far apart their weights lie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.embedded.arena import ArenaBlock, placed
from sparsegate.embedded.rows import factor_and_shift, rows_of


@given(st.integers(0, 2**32 - 1), st.integers(0, 1), st.sampled_from([0.0, 0.001, 0.02, 0.9]))
def test_rows_read_back(seed, first, keep):
    draw = np.random.default_rng(seed)
    shape = int(draw.integers(1, 5)), int(draw.integers(1, 1200))
    matrix = (draw.normal(size=shape) * (draw.random(shape) < keep)).astype(np.float32)
    rows = rows_of(matrix, first=first)
    found, at = np.zeros_like(matrix), 0
    for row in range(shape[0]):
        count = rows.size if rows.count is None else rows.count[row]
        gaps = np.ones(count, int) if rows.step is None else rows.step[at : at + count].astype(int)
        start = -1 if rows.step is None else -first
        found[row, start + np.cumsum(gaps)] = rows.value[at : at + count]
        at += count
    assert (found == matrix).all()


@given(st.floats(1e-9, 1e6))
def test_a_scale_is_a_factor_over_a_power_of_two(scale):
    factor, shift = factor_and_shift(scale)
    assert factor < 2**31
    assert shift >= 1
    assert factor / 2**shift == pytest.approx(scale, rel=1e-8, abs=2.0**-32)


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_blocks_that_live_at_once_do_not_overlap(given_blocks):
    blocks = [ArenaBlock(size, min(ends), max(ends)) for size, *ends in given_blocks]
    most = placed(blocks)
    for one in blocks:
        assert one.offset + one.size <= most
        assert one.offset % 4 == 0
        for other in blocks:
            is_apart = one.last < other.first or other.last < one.first
            beside = (
                one.offset + one.size <= other.offset or other.offset + other.size <= one.offset
            )
            assert one is other or is_apart or beside
