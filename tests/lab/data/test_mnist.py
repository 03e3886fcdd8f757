"""The bundled MNIST is the original one, divided as everybody divides it."""

import hashlib
import lzma
from importlib import resources

import pytest
import torch

from sparsegate_lab.data import mnist
from sparsegate_lab.data.mnist import MD5, checked

NAMES = sorted(MD5)
BUNDLED = resources.files("sparsegate_lab.data").joinpath("bundled")
LABELS = "t10k-labels-idx1-ubyte"


def packed(name):
    return BUNDLED.joinpath(f"{name}.xz").read_bytes()


def test_there_are_55000_digits_to_train_5000_to_choose_and_10000_to_report():
    data = mnist()
    assert [len(data.train), len(data.validation), len(data.test)] == [55_000, 5_000, 10_000]
    assert data.image_shape == (1, 28, 28)
    assert data.num_classes == 10


def test_the_last_5000_training_digits_are_for_validation_in_their_order():
    labels = torch.tensor(list(lzma.decompress(packed("train-labels-idx1-ubyte"))[8:]))
    images = lzma.decompress(packed("train-images-idx3-ubyte"))[16:]
    assert torch.equal(mnist().train.labels, labels[:55_000])
    assert torch.equal(mnist().validation.labels, labels[55_000:])
    assert mnist().validation.images.numpy().tobytes() == images[55_000 * 28 * 28 :]


@pytest.mark.parametrize("name", NAMES)
def test_every_bundled_file_is_the_original_one(name):
    assert hashlib.md5(lzma.decompress(packed(name))).hexdigest() == MD5[name]


def test_the_official_test_set_has_its_known_label_counts():
    counts = torch.bincount(mnist().test.labels).tolist()
    assert counts == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_the_official_training_set_has_its_known_label_counts():
    labels = torch.cat([mnist().train.labels, mnist().validation.labels])
    assert torch.bincount(labels).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]


def test_mnist_is_read_once():
    assert mnist() is mnist()


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_cut_bundled_file_is_refused(cut):
    with pytest.raises(
        ValueError, match=f"the bundled {LABELS} is damaged.*install sparsegate again"
    ):
        checked(packed(LABELS)[:cut], LABELS)


def test_a_bundled_file_with_one_other_label_is_refused():
    raw = bytearray(lzma.decompress(packed(LABELS)))
    raw[-1] ^= 1
    with pytest.raises(
        ValueError, match=f"the bundled {LABELS} is not the original file; install sparsegate again"
    ):
        checked(lzma.compress(bytes(raw)), LABELS)


def test_one_bundled_file_in_place_of_another_is_refused():
    with pytest.raises(ValueError, match="not the original"):
        checked(packed(LABELS), "train-labels-idx1-ubyte")
