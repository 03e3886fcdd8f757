"""An epoch's batches are a function of the seed and the epoch's number, whoever takes them."""

import dataclasses
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.export import Normalise
from sparsegate_lab.data import Flip, Shift, Split
from sparsegate_lab.train.batches import Batches


def batches(count=20, batch_size=4, seed=0, pixels=0, rank=0, world=1):
    """Images of 3x3 pixels, each filled with its own number, which is its label too."""
    numbers = torch.arange(count)
    images = numbers.to(torch.uint8).reshape(-1, 1, 1, 1).repeat(1, 1, 3, 3)
    return Batches(
        Split(images, numbers), Normalise(0.0, 1.0), (Shift(pixels),), batch_size, seed, rank, world
    )


def labels(of, number):
    epoch = of.epoch(number)
    return torch.cat([epoch[index][1] for index in range(len(of))]).tolist()


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 3))
def test_an_epoch_takes_every_image_once_but_for_what_is_left_over(count, batch_size, number):
    batch_size = min(count, batch_size)
    seen = labels(batches(count, batch_size), number)
    assert len(seen) == count - count % batch_size
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(range(count))


def test_images_come_with_their_own_labels():
    images, numbers = batches().epoch(0)[1]
    assert images.shape == (4, 1, 3, 3)
    assert torch.equal(images, numbers.float().reshape(4, 1, 1, 1).expand(4, 1, 3, 3))


def test_an_epoch_is_the_same_again_and_the_next_one_is_another():
    assert labels(batches(), 3) == labels(batches(), 3)
    assert labels(batches(), 3) != labels(batches(), 4)
    assert labels(batches(), 3) != labels(batches(seed=1), 3)


def test_an_epoch_does_not_depend_on_those_before_it_nor_on_torchs_seed():
    torch.manual_seed(1)
    straight = labels(batches(), 5)
    torch.manual_seed(2)
    of = batches()
    _ = [labels(of, number) for number in range(5)]
    assert labels(of, 5) == straight


@given(st.sampled_from([1, 2, 3, 6]), st.integers(0, 2))
def test_the_parts_of_all_processes_are_the_batch_of_one(world, pixels):
    whole, numbers = batches(24, 6, pixels=pixels).epoch(1)[2]
    parts = [
        batches(24, 6, pixels=pixels, rank=rank, world=world).epoch(1)[2] for rank in range(world)
    ]
    assert torch.equal(torch.cat([part for part, _ in parts]), whole)
    assert torch.equal(torch.cat([part for _, part in parts]), numbers)


def test_images_are_moved_by_other_offsets_in_every_epoch():
    of = batches(count=100, batch_size=100, pixels=2)
    sums = [
        dict(zip(y.tolist(), x.sum((1, 2, 3)).tolist(), strict=True))
        for x, y in (of.epoch(0)[0], of.epoch(1)[0])
    ]
    assert sums[0] != sums[1]  # a shift loses pixels of the full images


def test_images_are_normalised_after_they_were_moved():
    split = Split(
        torch.full((50, 1, 3, 3), 10, dtype=torch.uint8), torch.zeros(50, dtype=torch.int64)
    )
    images, _ = Batches(split, Normalise(10.0, 5.0), (Shift(2),), 50, seed=0).epoch(0)[0]
    assert images.unique().tolist() == [-2.0, 0.0]  # what enters is black, (0 - 10) / 5, not gray


def test_more_images_in_a_batch_than_there_are_is_refused():
    with pytest.raises(ValueError, match="batch_size is 21, but there are only 20 training images"):
        batches(batch_size=21)


def test_a_batch_that_does_not_divide_among_the_processes_is_refused():
    with pytest.raises(ValueError, match="batch_size 5 does not divide among 2 processes"):
        batches(batch_size=5, world=2)


def test_batches_that_a_thread_fetches_ahead_are_those_of_a_split_that_is_near():
    near, far = (
        batches(count=50, pixels=2),
        dataclasses.replace(batches(count=50, pixels=2), fetch_to=torch.device("cpu")),
    )
    both = list(zip(near.epoch(1), far.epoch(1), strict=True))
    assert len(both) == 12
    for (images, numbers), (other, others) in both:
        assert torch.equal(images, other)
        assert torch.equal(numbers, others)


def test_an_epoch_that_is_left_early_leaves_no_thread_behind():
    before = threading.active_count()
    for _ in dataclasses.replace(batches(count=50), fetch_to=torch.device("cpu")).epoch(0):
        break
    assert threading.active_count() <= before


def test_every_change_has_its_own_numbers_and_they_follow_each_other():
    shifted = batches(count=40, batch_size=40, pixels=2)
    both = dataclasses.replace(shifted, augments=(Shift(2), Flip()))
    _, flips = both.epoch(0).drawn
    (images, numbers), (mirrored, same) = shifted.epoch(0)[0], both.epoch(0)[0]
    assert torch.equal(numbers, same)
    assert torch.equal(mirrored, Flip().apply(images, flips))
    assert 0 < flips.sum() < 40
