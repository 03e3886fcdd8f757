"""Packed matrices hold every weight exactly once, where the kernels look for it."""

import ctypes
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsegate_runtime.engine import matrix
from sparsegate_runtime.engine.matrix import (
    LANES,
    NEAR,
    WORTH,
    CRows,
    CSlices,
    Panels,
    Rows,
    Slices,
    Weights,
    columns_in_block,
)

# Row 0 has 1 and 2 in columns 0 and 5, row 1 nothing, row 2 has 3 in column 5.
TOY = Weights(np.array([0, 0, 2]), np.array([0, 5, 5]), np.array([1, 2, 3], np.float32), 3)


@st.composite
def matrices(draw, most_columns=40):
    """Weights in any order, all different so that none can stand for another."""
    num_rows, num_columns = draw(st.integers(1, 40)), draw(st.integers(1, most_columns))
    made = np.random.default_rng(draw(st.integers(0, 999)))
    kept = made.random((num_rows, num_columns)) < draw(st.sampled_from((0, 0.02, 0.3, 1)))
    row, column = made.permutation(np.argwhere(kept)).reshape(-1, 2).T
    return Weights(row, column, np.arange(1, len(row) + 1, dtype=np.float32), num_rows)


def found_in_rows(rows):
    """Every weight as (row, offset, value), block by block."""
    return [
        (row, int(rows.offset[k]), float(rows.value[k]))
        for start in rows.start
        for row in range(len(start) - 1)
        for k in range(start[row], start[row + 1])
    ]


def found_in_slices(slices):
    """Every place that a kernel reads as (row, column, value), those after a row's end too."""
    side_by_side = len(slices.row) // (len(slices.start) - 1)
    steps = np.repeat(np.arange(len(slices.start) - 1), np.diff(slices.start))
    rows = slices.row.reshape(-1, side_by_side)[steps].reshape(-1)
    return list(zip(rows.tolist(), slices.column.tolist(), slices.value.tolist(), strict=True))


def given_in(weights, factor=1):
    return sorted(zip(weights.row, factor * weights.column, weights.value, strict=True))


def test_before_row_counts_the_weights_of_the_rows_above():
    assert TOY.before_row.tolist() == [0, 2, 2, 3]


def test_rows_in_one_block_by_hand():
    rows = Rows.of(TOY, TOY.column * 64, np.zeros(3, np.int64))
    assert rows.start.tolist() == [[0, 2, 2, 3]]
    assert rows.offset.tolist() == [0, 320, 320]
    assert rows.value.tolist() == [1, 2, 3]


def test_rows_in_two_blocks_by_hand():
    rows = Rows.of(TOY, TOY.column * 64, TOY.column // 3)
    assert rows.start.tolist() == [[0, 1, 1, 1], [1, 2, 2, 3]]
    assert rows.offset.tolist() == [0, 320, 320]
    assert rows.value.tolist() == [1, 2, 3]


def test_a_block_in_the_middle_may_be_empty():
    rows = Rows.of(TOY, TOY.column * 4, TOY.column // 2)
    assert rows.start.tolist() == [[0, 1, 1, 1], [1, 1, 1, 1], [1, 2, 2, 3]]


@settings(deadline=None)
@given(
    weights=matrices(), columns_each=st.integers(1, 40), bytes_each=st.sampled_from((4, 64, 256))
)
def test_rows_hold_every_weight_exactly_once_in_its_block(weights, columns_each, bytes_each):
    rows = Rows.of(weights, weights.column * bytes_each, weights.column // columns_each)
    assert sorted(found_in_rows(rows)) == given_in(weights, bytes_each)
    for block, start in enumerate(rows.start):
        inside = rows.offset[start[0] : start[-1]] // bytes_each
        assert (inside // columns_each == block).all()
    assert rows.start[-1, -1] == len(rows.value)


def test_slices_by_hand():
    slices = Slices.of(TOY)
    side_by_side = len(slices.row)
    assert slices.row.tolist() == [0, 2, 1] + [-1] * (side_by_side - 3)  # longest first
    assert slices.start.tolist() == [0, 2]
    column, value = slices.column.reshape(2, -1), slices.value.reshape(2, -1)
    assert value[:, :3].tolist() == [[1, 3, 0], [2, 0, 0]]
    assert column[:, :2].tolist() == [[0, 5], [5, 0]]
    assert not value[:, 3:].any()


@settings(deadline=None)
@given(weights=matrices())
def test_slices_hold_every_weight_exactly_once_and_zeros_beside_them(weights):
    slices = Slices.of(weights)
    found = found_in_slices(slices)
    assert sorted(each for each in found if each[2]) == given_in(weights)
    assert sorted(row for row in slices.row if row >= 0) == list(range(weights.num_rows))
    columns = {0, *weights.column}
    assert all(column in columns for _, column, _ in found)  # nothing is read beyond the input


@settings(deadline=None)
@given(weights=matrices())
def test_slices_are_as_long_as_their_longest_row(weights):
    slices = Slices.of(weights)
    lengths = np.append(np.diff(weights.before_row), 0)[slices.row]  # a row of -1 has none
    assert (
        np.diff(slices.start).tolist() == lengths.reshape(len(slices.start) - 1, -1).max(1).tolist()
    )


def test_columns_up_to_the_largest_16_bit_number_are_kept():
    weights = Weights(np.array([0]), np.array([65535]), np.ones(1, np.float32), 1)
    assert Slices.of(weights).column[0] == 65535


@settings(deadline=None)
@given(weights=matrices())
def test_panels_hold_every_weight_exactly_once_and_zeros_beside_them(weights):
    panels = Panels.of(weights, int(weights.column.max(initial=0)) + 1)
    found = []
    for slice_, (begin, end) in enumerate(pairwise(panels.start)):
        block = slice_ // (panels.height // LANES)
        for step in range(begin, end):
            for lane in range(LANES):
                row = panels.row[slice_ * LANES + lane]
                column, value = (x[step * LANES + lane] for x in (panels.column, panels.value))
                whole = block // panels.num_blocks * panels.height + row
                found.append((whole, block % panels.num_blocks * 128 + column, value))
                assert value == 0 or row < panels.height
    assert sorted(each for each in found if each[2]) == given_in(weights)


@settings(deadline=None)
@given(weights=matrices())
def test_every_block_of_a_panel_has_every_row_once(weights):
    panels = Panels.of(weights, int(weights.column.max(initial=0)) + 1)
    for number, rows in enumerate(panels.row.reshape(-1, panels.height)):
        first = number // panels.num_blocks * panels.height
        real = sorted(first + row for row in rows if row < panels.height)
        assert real == list(range(first, min(first + panels.height, weights.num_rows)))


@pytest.mark.parametrize(
    "weights", [TOY, Weights(*np.zeros((2, 0), np.int64), np.zeros(0, np.float32), 2)]
)
def test_what_c_gets_are_pointers_into_the_arrays(weights):
    rows, slices = Rows.of(weights, weights.column, weights.column // 3), Slices.of(weights)
    c_rows, c_slices = rows.as_c(), slices.as_c()
    assert isinstance(c_rows, CRows)
    assert isinstance(c_slices, CSlices)
    assert (c_rows.num_blocks, c_slices.num_slices) == (len(rows.start), len(slices.start) - 1)
    start = ctypes.cast(c_rows.start, ctypes.POINTER(ctypes.c_int32))
    assert start[: rows.start.size] == rows.start.reshape(-1).tolist()
    column = ctypes.cast(c_slices.column, ctypes.POINTER(ctypes.c_uint16))
    assert column[: len(slices.column)] == slices.column.tolist()


@settings(deadline=None)
@given(
    num_rows=st.integers(1, 5000),
    num_columns=st.integers(1, 5000),
    keep=st.floats(0, 1),
    bytes_each=st.integers(1, 100_000),
)
def test_a_block_has_some_column_and_no_more_than_there_are(
    num_rows, num_columns, keep, bytes_each
):
    num_weights = int(keep * num_rows * num_columns)
    found = columns_in_block(num_weights, num_rows, num_columns, bytes_each)
    assert 1 <= found <= num_columns


def test_a_block_of_many_weights_is_what_stays_near():
    assert columns_in_block(1000 * 1000, 1000, 1000, bytes_each=256) == NEAR // 256


def test_a_block_of_few_weights_is_large_enough_to_be_worth_it():
    assert columns_in_block(1000 * 10, 1000, 1000, bytes_each=64) == WORTH * 1000 / 10


def test_a_block_leaves_room_in_the_first_cache():
    assert matrix.most_near() >= matrix.NEAR
