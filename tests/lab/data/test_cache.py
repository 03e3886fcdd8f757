"""Photographs are decoded once, whole or not at all, and those that do not decode are named."""

import numpy as np
import pytest
import torch
from PIL import Image

from sparsegate_lab.data import Storing, load_data
from sparsegate_lab.data.photo_dataset import validation_last
from sparsegate_lab.data.photos import decode


class Seen:
    """Remembers how far decoding was."""

    def __init__(self):
        self.calls = []

    def __call__(self, done, total):
        self.calls.append((done, total))


def squares(folder):
    return sorted((folder.parent / "cache").glob("*.squares"))


def test_the_second_time_nothing_is_decoded_and_all_is_equal(photographs):
    first, second = Seen(), Seen()
    one = load_data(str(photographs), Storing(size=16, progress=first))
    other = load_data(str(photographs), Storing(size=16, progress=second))
    assert first.calls == [(done, 24) for done in range(1, 25)] + [
        (done, 6) for done in range(1, 7)
    ]
    assert second.calls == []
    assert torch.equal(one.train.images, other.train.images)
    assert sum(path.stat().st_size for path in squares(photographs)) == 30 * 3 * 16 * 16


def test_the_cache_holds_what_pillow_decodes(photographs):
    data = load_data(str(photographs), Storing(size=16))
    content = (photographs / "val" / "blue" / "01.png").read_bytes()
    assert torch.equal(data.test.images[1], torch.from_numpy(decode(content, 16)))


def test_another_size_or_another_image_is_decoded_anew(photographs):
    load_data(str(photographs), Storing(size=16))
    load_data(str(photographs), Storing(size=8))
    assert len(squares(photographs)) == 4
    Image.fromarray(np.full((40, 40, 3), 7, np.uint8)).save(photographs / "val" / "red" / "01.png")
    assert load_data(str(photographs), Storing(size=8)).test.images[4].unique().tolist() == [7]
    assert len(squares(photographs)) == 5


@pytest.fixture
def damaged(photographs):
    """One training image is cut off, another is none."""
    cut = photographs / "train" / "blue" / "04.JPEG"
    cut.write_bytes(cut.read_bytes()[:200])
    (photographs / "train" / "red" / "07.png").write_text("not an image")
    return photographs


def test_an_image_that_does_not_decode_is_named_and_leaves_no_cache(damaged):
    with pytest.raises(
        ValueError,
        match=r"blue/04.JPEG \(.*\); repair or remove it, .* --bad-images skip",
    ):
        load_data(str(damaged), Storing(size=16))
    assert [path for path in (damaged.parent / "cache").iterdir() if path.suffix != ".lock"] == []


def test_bad_images_can_be_left_out_and_are_told(damaged):
    for _ in range(2):  # decoded, and from the cache
        data = load_data(str(damaged), Storing(size=16, bad_images="skip"))
        assert (len(data.train), len(data.validation)) == (20, 2)
        (note,) = data.notes
        assert note.startswith("2 images do not decode and were left out: ")
        assert "04.JPEG" in note
        assert "07.png" in note
        levels = data.train.images.float().amax((1, 2, 3))
        assert levels[data.train.labels == 0].tolist() == sorted(
            levels[data.train.labels == 0].tolist()
        )
        assert not ((levels > 137) & (levels < 143))[
            data.train.labels == 0
        ].any()  # the fourth, 100 + 10 * 4


def test_of_many_bad_images_the_number_is_told_and_the_first_five_are_named(photographs):
    for number in range(6):
        (photographs / "train" / "red" / f"bad{number}.png").write_bytes(b"no")
    (note,) = load_data(str(photographs), Storing(size=16, bad_images="skip")).notes
    assert note.startswith("6 images do not decode and were left out: ")
    assert note.count("red/bad") == 5
    assert note.endswith("bad4.png ...")


def test_if_nothing_decodes_that_is_said(damaged):
    for path in damaged.glob("val/*/*"):
        path.write_bytes(b"no")
    with pytest.raises(
        ValueError, match=r"cannot decode any of the 6 images; the first, .*val/blue/00.JPEG"
    ):
        load_data(str(damaged), Storing(size=16, bad_images="skip"))


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_class_of_which_no_image_decodes_is_refused_by_name(split, photographs):
    for path in photographs.glob(f"{split}/red/*"):
        path.write_bytes(b"no")
    with pytest.raises(
        ValueError, match=rf"no image of the class of .*{split}/red/00.JPEG decodes"
    ):
        load_data(str(photographs), Storing(size=16, bad_images="skip"))


def test_a_damaged_cache_is_refused_by_name(photographs):
    load_data(str(photographs), Storing(size=16))
    path = squares(photographs)[0]
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match=r"expected \d+ bytes, got 5; delete the file"):
        load_data(str(photographs), Storing(size=16))


@pytest.mark.parametrize(
    "content", [b"", b"{garb", b"[]", b"null", b'{"a": "b"}', b'{"999": "x"}', b"\xff\xfe", None]
)
def test_a_cache_whose_description_is_damaged_or_missing_is_made_anew(content, photographs):
    before = load_data(str(photographs), Storing(size=16))
    for path in (photographs.parent / "cache").glob("*.json"):
        path.unlink() if content is None else path.write_bytes(content)
    for calls in ([*range(1, 25), *range(1, 7)], []):  # and after that it is whole
        seen = Seen()
        after = load_data(str(photographs), Storing(size=16, progress=seen))
        assert [done for done, _ in seen.calls] == calls
        assert torch.equal(after.train.images, before.train.images)


def test_a_cache_that_is_there_is_read_without_its_lock_and_nothing_is_written(photographs):
    before = load_data(str(photographs), Storing(size=16))
    cache = photographs.parent / "cache"
    for lock in cache.glob(
        "*.lock"
    ):  # which nobody could open for writing now, as in a folder of someone else's
        lock.unlink()
        lock.mkdir()
    names = sorted(cache.iterdir())
    assert torch.equal(
        load_data(str(photographs), Storing(size=16)).test.images, before.test.images
    )
    assert sorted(cache.iterdir()) == names


def test_a_cache_that_cannot_be_written_says_which_setting_to_change(photographs, monkeypatch):
    monkeypatch.setenv("SPARSEGATE_CACHE", str(photographs / "val" / "red" / "00.JPEG"))
    with pytest.raises(
        ValueError,
        match=r"cannot write decoded photographs to .*00.JPEG \(.*\); set SPARSEGATE_CACHE to another",
    ):
        load_data(str(photographs), Storing(size=16))


def test_too_large_a_cache_is_refused_before_it_is_begun(photographs):
    with pytest.raises(ValueError, match="set SPARSEGATE_CACHE to a folder on another disk"):
        load_data(str(photographs), Storing(size=2**20))


def test_of_a_large_set_fewer_are_set_aside_and_of_every_class():
    labels = [label for label in range(1000) for _ in range(1300)]
    order, num_train = validation_last(labels)
    assert 45_000 < len(labels) - num_train <= 50_000
    assert len({labels[place] for place in order[num_train:]}) == 1000
    assert sorted(order) == list(range(len(labels)))
    assert order[:num_train] == sorted(order[:num_train])


def test_a_single_image_per_class_leaves_none_for_validation():
    with pytest.raises(ValueError, match="a class with at least two images"):
        validation_last([0, 1, 2])
