"""Folders of photographs become three splits, and what is wrong with them is said by name."""

import shutil

import pytest
import torch

from sparsegate.data import Storing, load_data

SMALL = Storing(size=16)


def test_val_is_the_test_set_and_every_tenth_training_image_is_for_validation(photographs):
    data = load_data(str(photographs), SMALL)
    assert (len(data.train), len(data.validation), len(data.test)) == (22, 2, 6)
    assert data.image_shape == (3, 16, 16)
    assert data.num_classes == 2
    assert data.resizable
    assert sorted(data.validation.labels.tolist()) == [0, 1]


def test_labels_are_the_classes_in_the_order_of_their_names(photographs):
    data = load_data(str(photographs), SMALL)
    for split in (data.train, data.validation, data.test):
        brightest = split.images.float().mean((2, 3)).argmax(1)
        assert torch.equal(brightest, 2 - 2 * split.labels)  # blue is class 0, red is class 1


def test_the_tenth_by_name_is_the_one_for_validation(photographs):
    data = load_data(str(photographs), SMALL)
    red = data.validation.images[data.validation.labels == 1][0, 0].float().mean()
    assert 188 < red < 196  # 100 + 10 * 9


@pytest.mark.parametrize("lacking", ["train", "val"])
def test_a_class_that_only_one_of_the_folders_has_is_named(lacking, photographs):
    shutil.rmtree(photographs / lacking / "blue")
    other = "val" if lacking == "train" else "train"
    with pytest.raises(ValueError, match=rf"{lacking} lacks 1 class folder that {other} has: blue"):
        load_data(str(photographs), SMALL)


def test_without_a_test_set_nothing_is_read(photographs):
    shutil.rmtree(photographs / "val")
    with pytest.raises(ValueError, match="no val or test beside it, which is the test set"):
        load_data(str(photographs), SMALL)


def test_an_empty_class_is_refused(photographs):
    for path in (photographs / "val" / "red").iterdir():
        path.rename(path.with_suffix(".txt"))
    with pytest.raises(ValueError, match=r"val/red has no images; known endings"):
        load_data(str(photographs), SMALL)


def test_images_without_classes_are_refused(photographs):
    for path in (photographs / "train").iterdir():
        shutil.rmtree(path)
    with pytest.raises(ValueError, match=r"train has no folders in it; wanted one for each class"):
        load_data(str(photographs), SMALL)


def test_a_test_folder_serves_where_there_is_no_val(photographs):
    (photographs / "val").rename(photographs / "test")
    assert len(load_data(str(photographs), SMALL).test) == 6
