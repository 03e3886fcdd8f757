"""Folders of photographs become three splits, and what is wrong with them is said by name."""

import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from sparsegate_lab.data import Storing, load_data

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
    with pytest.raises(ValueError, match="expected the folder val or test next to train"):
        load_data(str(photographs), SMALL)


def test_an_empty_class_is_refused(photographs):
    for path in (photographs / "val" / "red").iterdir():
        path.rename(path.with_suffix(".txt"))
    with pytest.raises(ValueError, match=r"val/red has no images; expected files that end in"):
        load_data(str(photographs), SMALL)


def test_images_without_classes_are_refused(photographs):
    for path in (photographs / "train").iterdir():
        shutil.rmtree(path)
    with pytest.raises(ValueError, match=r"train: expected one folder of images for each class"):
        load_data(str(photographs), SMALL)


def test_a_test_folder_serves_where_there_is_no_val(photographs):
    (photographs / "val").rename(photographs / "test")
    assert len(load_data(str(photographs), SMALL).test) == 6


@pytest.fixture
def bitmaps(photographs):
    """The same photographs as files that are all of one size."""
    for path in photographs.glob("*/*/*"):
        Image.open(path).resize((8, 8)).save(path.with_suffix(".bmp"))
        path.unlink()
    return photographs


def test_images_that_are_made_anew_at_the_same_size_are_read_anew(bitmaps):
    load_data(str(bitmaps), SMALL)
    path = bitmaps / "val" / "red" / "01.bmp"
    size = path.stat().st_size
    Image.fromarray(np.full((8, 8, 3), 7, np.uint8)).save(path)
    assert path.stat().st_size == size
    assert load_data(str(bitmaps), SMALL).test.images[4].unique().tolist() == [7]


def test_a_folder_that_is_moved_or_copied_with_its_times_is_found_in_the_cache(bitmaps):
    calls = []
    load_data(str(bitmaps), SMALL)
    copied = shutil.copytree(bitmaps, bitmaps.parent / "copied")
    moved = bitmaps.rename(bitmaps.parent / "moved")
    for folder in (copied, moved):
        load_data(str(folder), Storing(size=16, progress=lambda *call: calls.append(call)))
    assert calls == []


def test_a_change_of_a_nanosecond_is_noticed(bitmaps):
    path, calls = bitmaps / "val" / "red" / "01.bmp", []
    os.utime(path, ns=(10**18, 10**18))
    load_data(str(bitmaps), SMALL)
    os.utime(path, ns=(10**18, 10**18 + 1))
    load_data(str(bitmaps), Storing(size=16, progress=lambda *call: calls.append(call)))
    assert calls[-1] == (6, 6)


def test_jfif_is_an_ending_of_images(photographs):
    for path in photographs.glob("*/*/*.JPEG"):
        path.rename(path.with_suffix(".jfif"))
    data = load_data(str(photographs), SMALL)
    assert (len(data.train), len(data.validation), len(data.test)) == (22, 2, 6)
    assert data.notes == ()


def test_files_that_are_not_taken_are_told_and_hidden_ones_are_not(photographs):
    (photographs / "train" / "red" / ".hidden").touch()
    (photographs / "val" / "blue" / "00.JPEG").rename(photographs / "val" / "blue" / "00.heic")
    (note,) = load_data(str(photographs), SMALL).notes
    assert note.startswith(
        "1 file was not used; an image is directly in the folder of its class and ends"
    )
    assert note.endswith(".ppm: val/blue/00.heic")


def test_images_in_folders_within_a_class_are_told_and_the_first_are_named(photographs):
    deeper = photographs / "train" / "red" / "more" / "still more"
    deeper.mkdir(parents=True)
    for number in range(6):
        shutil.copy(photographs / "train" / "red" / "00.JPEG", deeper / f"{number}.JPEG")
    data = load_data(str(photographs), SMALL)
    assert len(data.train) == 22
    (note,) = data.notes
    assert note.startswith("6 files were not used")
    assert note.endswith(", train/red/more/still more/4.JPEG ...")


def test_files_beside_the_folders_of_classes_are_told(photographs):
    shutil.copy(photographs / "train" / "red" / "00.JPEG", photographs / "train" / "lost.JPEG")
    (photographs / "val" / "classes.txt").touch()
    (photographs / "val" / ".hidden").touch()
    data = load_data(str(photographs), SMALL)
    assert (len(data.train), len(data.validation), len(data.test)) == (22, 2, 6)
    (note,) = data.notes
    assert note.startswith("2 files were not used; an image is directly in the folder of its class")
    assert note.endswith(": train/lost.JPEG, val/classes.txt")


def test_files_whose_names_are_no_text_are_read_and_told(photographs):
    strange = os.fsdecode(b"caf\xe9")
    for name, ending in (("00", "JPEG"), ("02", "heic")):
        (photographs / "val" / "red" / f"{name}.JPEG").rename(
            photographs / "val" / "red" / f"{strange}.{ending}"
        )
    data = load_data(str(photographs), SMALL)
    assert len(data.test) == 5
    assert data.notes[0].endswith(": val/red/caf\ufffd.heic")
