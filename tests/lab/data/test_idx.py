"""MNIST-format folders are read whole, or refused with the file's name and what to do."""

import gzip
import lzma
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_lab.data import read_idx_folder
from sparsegate_lab.data.idx import make_split, parse_idx

SMALL = torch.arange(12, dtype=torch.uint8).reshape(3, 2, 2)
PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def same(one, other):
    splits = ("train", "validation", "test")
    return all(
        torch.equal(getattr(one, name).images, getattr(other, name).images) for name in splits
    ) and all(
        torch.equal(getattr(one, name).labels, getattr(other, name).labels) for name in splits
    )


@pytest.fixture
def folder(tmp_path, digits):
    """A copy of the digits that a test may damage."""
    return shutil.copytree(digits, tmp_path / "digits")


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    """A folder that all examples of one property write to."""
    return tmp_path_factory.mktemp("scratch")


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_an_array_comes_back_as_it_was_written(as_idx, shape, random):
    count = torch.Size(shape).numel()
    values = torch.tensor([random.randrange(256) for _ in range(count)], dtype=torch.uint8).reshape(
        shape
    )
    assert torch.equal(parse_idx(as_idx(values), "file"), values)


@given(st.integers(0, 27))
def test_a_file_cut_anywhere_is_refused(as_idx, length):
    raw = as_idx(SMALL)
    assert len(raw) == 4 + 3 * 4 + 12
    with pytest.raises(ValueError, match=r"^some-file is (truncated|not an idx file)"):
        parse_idx(raw[:length], "some-file")


@given(st.binary(min_size=1, max_size=5))
def test_a_file_with_bytes_too_many_is_refused(as_idx, more):
    with pytest.raises(ValueError, match=r"some-file is truncated or damaged.*get the file again"):
        parse_idx(as_idx(SMALL) + more, "some-file")


@pytest.mark.parametrize(
    "magic", [b"\x89PNG", b"\0\0\x0d\x03", b"\x01\0\x08\x03", b"\0\x01\x08\x03"]
)
def test_another_kind_of_file_is_refused_with_its_first_bytes(magic, as_idx):
    with pytest.raises(ValueError, match=f"some-file is not an idx file.*{magic.hex()}"):
        parse_idx(magic + as_idx(SMALL)[4:], "some-file")


@pytest.mark.parametrize("suffix", PACKERS)
def test_plain_and_compressed_folders_hold_the_same_dataset(suffix, digits, tmp_path):
    for path in digits.iterdir():
        (tmp_path / (path.name + suffix)).write_bytes(PACKERS[suffix](path.read_bytes()))
    assert same(read_idx_folder(tmp_path), read_idx_folder(digits))


def test_a_folder_is_divided_into_900_100_and_200_digits(digits):
    data = read_idx_folder(digits)
    assert [len(data.train), len(data.validation), len(data.test)] == [900, 100, 200]
    assert data.image_shape == (1, 28, 28)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_compressed_file_cut_anywhere_is_refused_by_name(suffix, cut, digits, scratch):
    _spoil(scratch, digits, suffix, lambda packed: packed[: int(cut * len(packed))])
    with pytest.raises(
        ValueError, match=f"t10k-labels-idx1-ubyte{suffix} is (truncated|not an idx file)"
    ):
        read_idx_folder(scratch)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@given(place=st.floats(0.2, 0.9), bit=st.integers(0, 7))
def test_a_compressed_file_damaged_inside_is_refused_by_name(suffix, place, bit, digits, scratch):
    _spoil(scratch, digits, suffix, lambda packed: _flipped(packed, int(place * len(packed)), bit))
    with pytest.raises(
        ValueError, match=f"t10k-labels-idx1-ubyte{suffix} is truncated or damaged.*again"
    ):
        read_idx_folder(scratch)


def test_a_missing_folder_is_named_with_what_it_must_hold(tmp_path):
    with pytest.raises(
        ValueError, match=r"there is no folder .*nowhere; expected one with the four idx files"
    ):
        read_idx_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "stem", ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"]
)
def test_a_missing_file_is_named(stem, folder):
    (folder / f"{stem}-ubyte").unlink()
    with pytest.raises(ValueError, match=rf"digits has no {stem}-ubyte \(nor {stem}-ubyte\.gz"):
        read_idx_folder(folder)


def test_images_and_labels_of_different_length_are_refused(folder, as_idx):
    (folder / "train-labels-idx1-ubyte").write_bytes(as_idx(torch.zeros(999)))
    with pytest.raises(
        ValueError, match=r"train-\*: expected images .*, got \(1000, 28, 28\) and \(999,\)"
    ):
        read_idx_folder(folder)


def test_labels_in_place_of_images_are_refused(folder):
    shutil.copy(folder / "train-labels-idx1-ubyte", folder / "train-images-idx3-ubyte")
    with pytest.raises(
        ValueError,
        match=r"expected images of shape \(count, height, width\) and labels of shape \(count,\)",
    ):
        read_idx_folder(folder)


def test_a_folder_without_images_is_refused(folder, as_idx):
    (folder / "t10k-images-idx3-ubyte").write_bytes(as_idx(torch.zeros(0, 28, 28)))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(as_idx(torch.zeros(0)))
    with pytest.raises(ValueError, match="t10k"):
        read_idx_folder(folder)


def test_a_split_has_one_channel_and_whole_labels():
    made = make_split(SMALL, torch.tensor([3, 1, 2], dtype=torch.uint8), "here")
    assert made.images.shape == (3, 1, 2, 2)
    assert made.labels.tolist() == [3, 1, 2]
    assert made.labels.dtype is torch.int64


def _spoil(folder, digits, suffix, change):
    for path in digits.iterdir():
        shutil.copy(path, folder)
    (folder / "t10k-labels-idx1-ubyte").unlink()
    for old in folder.glob("t10k-labels-idx1-ubyte.*"):
        old.unlink()
    packed = PACKERS[suffix]((digits / "t10k-labels-idx1-ubyte").read_bytes())
    (folder / f"t10k-labels-idx1-ubyte{suffix}").write_bytes(change(packed))


def _flipped(packed, place, bit):
    return packed[:place] + bytes((packed[place] ^ (1 << bit),)) + packed[place + 1 :]


def test_a_text_file_names_the_classes(digits, tmp_path):
    folder = shutil.copytree(digits, tmp_path / "digits")
    assert read_idx_folder(folder).class_names == ()
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "neun ü"]
    (folder / "classes.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    assert read_idx_folder(folder).class_names == tuple(names)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [(b"one\ntwo\n", "expected 10 names of classes, .* got 2"), (b"\xff\n", "not text in UTF-8")],
)
def test_names_of_classes_that_do_not_fit_are_refused(content, wanted, digits, tmp_path):
    folder = shutil.copytree(digits, tmp_path / "digits")
    (folder / "classes.txt").write_bytes(content)
    with pytest.raises(ValueError, match=rf"classes\.txt.*{wanted}"):
        read_idx_folder(folder)
