"""Shifts move images, lose what leaves the frame, and fill with black."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.data import Shift

TOY = torch.arange(1, 10, dtype=torch.uint8).reshape(1, 1, 3, 3)


def moved(offsets, images=TOY, pixels=2):
    return Shift(pixels).apply(images.expand(len(offsets), -1, -1, -1), torch.tensor(offsets))


def rolled(image, down, right):
    """The same shift by torch.roll, whose wrapped rows and columns are made black."""
    height, width = image.shape[-2:]
    image = image.roll((down, right), dims=(-2, -1))
    rows, columns = torch.arange(height) - down, torch.arange(width) - right
    inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))
    return image * inside


def test_one_down_and_one_left_of_a_toy():
    assert moved([[1, -1]])[0, 0].tolist() == [[0, 0, 0], [2, 3, 0], [5, 6, 0]]


def test_two_up_leaves_the_last_row_on_top():
    assert moved([[-2, 0]])[0, 0].tolist() == [[7, 8, 9], [0, 0, 0], [0, 0, 0]]


def test_every_image_moves_by_its_own_offset():
    first, second = moved([[1, 0], [0, 1]])
    assert first[0].tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 6]]
    assert second[0].tolist() == [[0, 1, 2], [0, 4, 5], [0, 7, 8]]


def test_an_offset_of_zero_changes_nothing():
    assert torch.equal(moved([[0, 0]]), TOY)


def test_no_pixels_means_no_shift():
    assert Shift(0).draw(5, torch.Generator()).tolist() == [[0, 0]] * 5
    assert torch.equal(Shift(0).apply(TOY, torch.zeros(1, 2, dtype=torch.int64)), TOY)


@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(1, 2), st.integers(3, 6), st.integers(3, 6))
def test_a_shift_is_a_roll_with_a_black_border(down, right, channels, height, width):
    generator = torch.Generator().manual_seed(height * width)
    image = torch.randint(1, 256, (1, channels, height, width), generator=generator, dtype=torch.uint8)
    result = moved([[down, right]], image, pixels=3)
    assert torch.equal(result, rolled(image, down, right))
    assert result.shape == image.shape


@given(st.integers(-2, 2), st.integers(-2, 2))
def test_what_stays_in_the_frame_is_kept_and_nothing_is_invented(down, right):
    kept = moved([[down, right]])[0, 0]
    stays = TOY[0, 0, max(0, -down) : 3 - max(0, down), max(0, -right) : 3 - max(0, right)]
    assert sorted(kept[kept > 0].tolist()) == sorted(stays.flatten().tolist())


@pytest.mark.parametrize("pixels", [1, 2, 14])
def test_offsets_reach_both_ends_and_go_no_further(pixels):
    offsets = Shift(pixels).draw(2000, torch.Generator().manual_seed(0))
    assert offsets.shape == (2000, 2)
    assert offsets.amin(0).tolist() == [-pixels, -pixels]
    assert offsets.amax(0).tolist() == [pixels, pixels]


def test_the_same_generator_draws_the_same_offsets():
    first, second = (Shift(2).draw(50, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, Shift(2).draw(50, torch.Generator().manual_seed(4)))
