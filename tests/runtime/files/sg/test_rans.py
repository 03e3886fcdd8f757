"""The entropy coder gives back what went in, at the cost that information theory asks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples

from sparsegate_runtime.files.sg.rans import LOW, WHOLE, Decoder, Encoder, chance, frequencies


def joined(words):
    return np.concatenate([np.zeros(0, np.uint16), *words])


def coded(encoder, lanes=2):
    states, words = encoder.finish(lanes)
    return Decoder(states, joined(words))


@given(st.lists(st.booleans(), max_size=200), st.integers(1, WHOLE - 1), st.integers(1, 9))
def test_bits_come_back_whatever_their_frequency_and_the_number_of_lanes(bits, one, lanes):
    encoder = Encoder()
    encoder.add_bits("", np.array(bits, bool), one)
    decoder = coded(encoder, lanes)
    assert decoder.bits(len(bits), one).tolist() == bits
    decoder.finish()


@given(st.lists(st.integers(0, 20), min_size=1, max_size=200), st.integers(1, 5))
def test_groups_of_different_kinds_come_back_in_order(symbols, lanes):
    numbers = np.array(symbols)
    shares = frequencies(np.bincount(numbers, minlength=21))
    encoder = Encoder()
    encoder.add_symbols("", numbers, shares)
    encoder.add_pieces("", numbers * 3000, WHOLE)
    encoder.add_bits("", numbers > 9, chance(1, 3))
    decoder = coded(encoder, lanes)
    assert decoder.symbols(len(numbers), shares).tolist() == symbols
    assert decoder.pieces(len(numbers), WHOLE).tolist() == (numbers * 3000).tolist()
    assert decoder.bits(len(numbers), chance(1, 3)).tolist() == (numbers > 9).tolist()
    decoder.finish()


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=256).filter(any))
def test_frequencies_sum_to_the_whole_and_leave_no_symbol_out(counts):
    shares = frequencies(np.array(counts))
    assert shares.sum() == WHOLE
    assert ((shares > 0) == (np.array(counts) > 0)).all()


@pytest.mark.parametrize("density", [0.5, 0.1, 0.01])
def test_the_size_is_the_information_and_some_bits_a_lane(density):
    bits = np.random.default_rng(0).random(200_000) < density
    encoder = Encoder()
    encoder.add_bits("mask", bits, chance(int(bits.sum()), len(bits)))
    states, words = encoder.finish(8)
    entropy = len(bits) * -(density * np.log2(density) + (1 - density) * np.log2(1 - density))
    assert encoder.information["mask"] == pytest.approx(entropy, rel=0.03)
    assert 8 * (states.nbytes + joined(words).nbytes) == pytest.approx(
        encoder.information["mask"], rel=0.005, abs=8 * 32
    )


def test_a_stream_that_ends_early_or_late_is_an_error():
    encoder = Encoder()
    encoder.add_pieces("", np.arange(50), 256)
    states, pieces = encoder.finish(1)
    words = joined(pieces)
    with pytest.raises(ValueError, match="ends too early"):
        Decoder(states, words[:-3]).pieces(50, 256)
    with pytest.raises(ValueError, match="does not end"):
        Decoder(states, words).finish()
    longer = Decoder(states, np.append(words, np.uint16(7)))
    longer.pieces(50, 256)
    with pytest.raises(ValueError, match="does not end"):
        longer.finish()


def test_nothing_takes_nothing_but_the_states():
    states, words = Encoder().finish(3)
    assert states.tolist() == [LOW] * 3
    assert len(words) == 0
