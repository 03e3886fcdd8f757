"""Shifts move images, lose what leaves the frame, and fill with black."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_lab.data import Erase, Flip, Jitter, RandomCrop, Shift

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


@given(
    st.integers(-3, 3), st.integers(-3, 3), st.integers(1, 2), st.integers(3, 6), st.integers(3, 6)
)
def test_a_shift_is_a_roll_with_a_black_border(down, right, channels, height, width):
    generator = torch.Generator().manual_seed(height * width)
    image = torch.randint(
        1, 256, (1, channels, height, width), generator=generator, dtype=torch.uint8
    )
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


def test_mirrored_images_are_those_with_a_one():
    images = TOY.expand(2, -1, -1, -1)
    straight, mirrored = Flip().apply(images, torch.tensor([[0], [1]]))
    assert torch.equal(straight, TOY[0])
    assert mirrored[0].tolist() == [[3, 2, 1], [6, 5, 4], [9, 8, 7]]


def test_about_half_of_the_images_are_mirrored():
    assert 0.4 < Flip().draw(1000, torch.Generator().manual_seed(0)).float().mean() < 0.6


@given(st.floats(0.05, 1.0), st.integers(0, 10_000))
def test_a_random_part_lies_in_the_image_and_is_as_large_as_it_may_be(smallest, seed):
    crop = RandomCrop((8, 8), smallest)
    boxes = crop.boxes(20, 30, crop.draw(50, torch.Generator().manual_seed(seed)))
    assert (boxes >= 0).all()
    assert (boxes[:, 0] + boxes[:, 2] <= 20 + 1e-4).all()
    assert (boxes[:, 1] + boxes[:, 3] <= 30 + 1e-4).all()
    area = boxes[:, 2] * boxes[:, 3] / 600
    assert (area <= 1 + 1e-5).all()
    assert (
        area >= min(smallest, 0.75) - 1e-5
    ).all()  # a wide part of the whole area is cut to three quarters


def test_a_random_part_has_the_wanted_size_and_levels_of_the_image():
    images = torch.randint(50, 200, (4, 3, 20, 20), dtype=torch.uint8)
    crop = RandomCrop((7, 9), 0.3)
    parts = crop.apply(images, crop.draw(4, torch.Generator().manual_seed(0)))
    assert parts.shape == (4, 3, 7, 9)
    assert parts.min() >= 50 - 1e-3
    assert parts.max() <= 200 + 1e-3


def test_factors_of_one_change_no_colour():
    images = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    torch.testing.assert_close(Jitter(0.4).apply(images, torch.ones(2, 3)), images.float())


@pytest.mark.parametrize(
    ("factors", "wanted"),
    [
        ([2.0, 1.0, 1.0], [[100.0, 200.0]] * 3),  # twice as bright
        ([1.0, 0.0, 1.0], [[75.0, 75.0]] * 3),  # no contrast: the mean
        ([1.0, 1.0, 0.0], [[50.0, 100.0]] * 3),  # a gray image has no color to lose
        ([4.0, 1.0, 1.0], [[200.0, 255.0]] * 3),  # no brighter than white
    ],
)
def test_light_is_changed_as_computed_by_hand(factors, wanted):
    image = torch.tensor([[50, 100]], dtype=torch.uint8).expand(1, 3, 1, 2)
    result = Jitter(0.5).apply(image, torch.tensor([factors]))
    torch.testing.assert_close(result[0, :, 0], torch.tensor(wanted))


def test_without_colour_all_channels_are_equal():
    images = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    grey = Jitter(0.5).apply(images, torch.tensor([[1.0, 1.0, 0.0]] * 2))
    torch.testing.assert_close(grey[:, 0], grey[:, 2])


def test_factors_lie_around_one():
    factors = Jitter(0.25).draw(500, torch.Generator().manual_seed(0))
    assert factors.shape == (500, 3)
    assert 0.75 <= factors.min() < 0.8
    assert 1.2 < factors.max() <= 1.25


def test_a_square_of_a_toy_is_grey():
    middle = torch.tensor([[0.5, 0.9]])
    assert Erase(2).apply(TOY, middle)[0, 0].tolist() == [[1, 128, 128], [4, 128, 128], [7, 8, 9]]


def test_every_image_has_its_own_square_which_may_reach_over_the_border():
    images = torch.zeros(200, 3, 8, 8, dtype=torch.uint8)
    covered = Erase(4).apply(images, Erase(4).draw(200, torch.Generator().manual_seed(0))) == 128
    assert torch.equal(covered.any(1), covered.all(1))
    sizes = covered[:, 0].sum((1, 2))
    assert set(sizes.tolist()) <= {rows * columns for rows in (2, 3, 4) for columns in (2, 3, 4)}
    assert covered[:, 0].float().mean(0).min() > 0.05
