"""Masks whose rows stand in order come back, and their order costs nothing."""

from math import lgamma, log

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples

from sparsegate.files import compress, encode_sg, load, position_entropy
from sparsegate_runtime.files.sg.mask import (
    MAX_ROWS,
    add_sorted,
    count_starts,
    is_sorted,
    read_sorted,
)
from sparsegate_runtime.files.sg.rans import WHOLE, Decoder, Encoder, chance


def in_order(mask):
    return np.array(sorted(mask.tolist()), bool).reshape(mask.shape)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(2, 20), st.integers(1, 20), st.floats(0, 1), st.integers(0, 99), st.integers(1, 3)
)
def test_any_mask_in_order_comes_back(rows, columns, density, seed, lanes):
    mask = in_order(np.random.default_rng(seed).random((rows, columns)) < density)
    one = chance(int(mask.sum()), mask.size)
    encoder = Encoder()
    add_sorted(encoder, "mask", mask, one)
    states, words = encoder.finish(lanes)
    decoder = Decoder(states, np.concatenate([np.zeros(0, np.uint16), *words]))
    assert np.array_equal(read_sorted(decoder, mask.shape, one), mask)
    decoder.finish()


def test_the_order_of_the_rows_is_saved():
    mask = in_order(np.random.default_rng(0).random((80, 400)) < 0.05)
    encoder = Encoder()
    add_sorted(encoder, "mask", mask, chance(int(mask.sum()), mask.size))
    orders = lgamma(81) / log(2)
    assert encoder.information["mask"] == pytest.approx(
        position_entropy(mask.size, int(mask.sum())) - orders, rel=0.01
    )


@given(st.integers(2, MAX_ROWS), st.integers(1, WHOLE - 1))
def test_starts_of_counts_rise_to_the_whole(length, one):
    starts = count_starts(length, one)
    assert len(starts) == length + 2
    assert starts[0] == 0
    assert starts[-1] == WHOLE
    assert all(np.diff(starts) >= 1)


def test_rows_are_in_order_if_they_never_fall():
    assert is_sorted(np.array([[0, 0], [0, 1], [0, 1], [1, 0]], bool))
    assert not is_sorted(np.array([[1, 0], [0, 1]], bool))


def test_a_file_is_smaller_if_its_rows_are_in_order(tmp_path):
    mask = np.random.default_rng(0).random((60, 200)) < 0.1
    plain, ordered = (torch.from_numpy(each).float() for each in (mask, in_order(mask)))
    sizes = [len(encode_sg(compress({"w": each}).entries, {})[0]) for each in (plain, ordered)]
    assert sizes[1] < sizes[0] - 25  # log2(60!) is 272 bits
    compress({"w": ordered}).save(tmp_path / "network.sg")
    assert torch.equal(load(tmp_path / "network.sg").state_dict()["w"], ordered)


def test_more_cells_than_may_be_told_by_order_are_told_bit_by_bit(tmp_path):
    state = {str(place): torch.eye(400).flip(0) for place in range(5)}  # five times 160,000 cells
    compress(state).save(tmp_path / "network.sg")
    back = load(tmp_path / "network.sg").state_dict()
    assert all(torch.equal(back[name], state[name]) for name in state)
