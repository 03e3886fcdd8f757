"""Datasets: three splits that share no image, and numbers around zero."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.export import Normalise
from sparsegate_lab.data import Dataset, Split, load_data, mnist


def split(*labels, height=1, width=1):
    return Split(
        torch.zeros(len(labels), 1, height, width, dtype=torch.uint8), torch.tensor(labels)
    )


def toy(*values):
    images = torch.tensor(values, dtype=torch.uint8).reshape(-1, 1, 1, 1)
    part = Split(images, torch.zeros(len(values), dtype=torch.int64))
    return Dataset(part, split(0), split(0))


@given(st.integers(2, 12_000))
def test_training_and_validation_images_are_the_given_ones_in_order(count):
    data = Dataset.divided(split(*range(count)), split(0))
    assert torch.cat([data.train.labels, data.validation.labels]).tolist() == list(range(count))
    assert len(data.train) > 0
    assert len(data.validation) > 0


@pytest.mark.parametrize(
    ("count", "aside"), [(2, 1), (19, 1), (20, 2), (1000, 100), (9_999, 999), (10_000, 5_000)]
)
def test_the_last_5000_images_are_set_aside_and_of_few_images_a_tenth(count, aside):
    assert len(Dataset.divided(split(*range(count)), split(0)).validation) == aside


def test_a_single_training_image_cannot_be_divided():
    with pytest.raises(ValueError, match="training image"):
        Dataset.divided(split(0), split(0))


@pytest.mark.parametrize("labels", [((7,), (1,), (2,)), ((1,), (7,), (2,)), ((1,), (2,), (7,))])
def test_the_largest_label_of_any_split_counts_the_classes(labels):
    assert Dataset(*(split(*each) for each in labels)).num_classes == 8


def test_the_image_shape_is_channels_height_and_width():
    data = Dataset.divided(split(0, 1, height=3, width=5), split(0, height=3, width=5))
    assert data.image_shape == (1, 3, 5)


def test_a_part_keeps_images_with_their_labels():
    whole = toy(10, 20, 30).train
    part = Split(whole.images, torch.tensor([1, 2, 3])).part(1, 3)
    assert part.images.flatten().tolist() == [20, 30]
    assert part.labels.tolist() == [2, 3]


def test_bytes_0_and_10_become_minus_one_and_one():
    normalise = toy(0, 10).normalise
    assert normalise == Normalise(mean=5.0, spread=5.0)
    assert normalise(torch.tensor([0, 10, 20], dtype=torch.uint8)).tolist() == [-1.0, 1.0, 3.0]


def test_images_of_one_colour_become_zero_and_not_nan():
    data = toy(7, 7, 7)
    assert data.normalise(data.train.images).tolist() == torch.zeros(3, 1, 1, 1).tolist()


@given(st.lists(st.integers(0, 255), min_size=2, max_size=50))
def test_normalising_leaves_the_bytes_as_they_were(values):
    data = toy(*values)
    before = data.train.images.clone()
    data.normalise(data.train.images)
    assert torch.equal(data.train.images, before)


def test_the_training_digits_have_mean_zero_and_spread_one(digits):
    data = load_data(str(digits))
    numbers = data.normalise(data.train.images).double()
    assert abs(numbers.mean()) < 1e-6
    assert abs(numbers.std(correction=0) - 1) < 1e-6


def test_a_registered_name_is_a_dataset_and_a_path_a_folder(digits):
    assert load_data("mnist") is mnist()
    assert len(load_data(str(digits)).test) == 200


@pytest.mark.parametrize(
    ("name", "wanted"), [("mnits", "did you mean 'mnist'"), ("nowhere/at/all", "no data folder")]
)
def test_what_is_neither_a_name_nor_a_folder_is_refused(name, wanted):
    with pytest.raises(ValueError, match=wanted):
        load_data(name)


def test_colours_are_normalised_each_by_itself():
    images = torch.tensor([[0, 100], [10, 200]], dtype=torch.uint8).reshape(2, 2, 1, 1)
    data = Dataset(Split(images, torch.tensor([0, 1])), split(0), split(0))
    assert data.normalise == Normalise((5.0, 150.0), (5.0, 50.0))
    assert data.normalise(images).flatten().tolist() == [-1, -1, 1, 1]
