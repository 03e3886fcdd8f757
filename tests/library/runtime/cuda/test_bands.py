"""Bands of sorted rows."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.runtime.cuda.bands import NUM_BANDS, QUANTUM, make_bands

COUNTS = st.lists(st.integers(0, 300), max_size=60).map(
    lambda each: np.array(sorted(each, reverse=True), np.int64)
)


@given(COUNTS)
def test_bands_follow_each_other_and_hold_every_row(counts):
    bands = make_bands(counts)
    assert len(bands) == NUM_BANDS
    row = start = 0
    for band in bands:
        assert (band.row, band.start) == (row, start)
        assert all(counts[row : row + band.rows] <= band.width)
        row, start = row + band.rows, start + band.rows * band.width
    assert row == len(counts)


@given(COUNTS)
def test_widths_are_multiples_of_the_quantum(counts):
    assert all(band.width % QUANTUM == 0 for band in make_bands(counts))


@given(st.lists(st.integers(0, 99), min_size=1, max_size=11))
def test_no_other_bands_waste_fewer_words(counts):
    counts = np.array(sorted(counts, reverse=True), np.int64)
    widths = -(-counts // QUANTUM) * QUANTUM
    best = min(
        sum(
            int(widths[first]) * (end - first)
            for first, end in itertools.pairwise((0, *cuts, len(counts)))
        )
        for number in range(NUM_BANDS)
        for cuts in itertools.combinations(range(1, len(counts)), number)
    )
    assert sum(band.rows * band.width for band in make_bands(counts)) == best


def test_many_widths_are_thinned_out_and_every_row_still_fits():
    counts = np.arange(4000, 0, -1)
    bands = make_bands(counts)
    assert all((counts[band.row : band.row + band.rows] <= band.width).all() for band in bands)
    assert sum(band.rows * band.width for band in bands) < 1.15 * counts.sum()


@given(COUNTS, st.sampled_from([2, 8, 32]))
def test_bands_can_be_multiples_of_a_step_and_every_row_still_fits(counts, step):
    bands = make_bands(counts, step=step)
    assert all(band.row % step == 0 or band.row == len(counts) for band in bands)
    assert all((counts[band.row : band.row + band.rows] <= band.width).all() for band in bands)
    assert sum(band.rows for band in bands) == len(counts)
