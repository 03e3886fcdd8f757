"""CIFAR's files in their four layouts, and none that would run code."""

import pickle

import numpy as np
import pytest
import torch

from sparsegate_lab.data import load_data

COUNT = 4  # images in a file


def rows(seed, num_labels):
    """Labels, then pixels, as the binary files have them."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 10, (COUNT, num_labels), dtype=np.uint8)
    return np.concatenate([labels, draw.integers(0, 256, (COUNT, 3072), dtype=np.uint8)], axis=1)


def pickled(values, num_labels, protocol=2):
    name = b"fine_labels" if num_labels == 2 else b"labels"
    batch = {
        b"data": values[:, num_labels:],
        name: values[:, num_labels - 1].tolist(),
        b"filenames": [b"a.png"],
    }
    return pickle.dumps(batch, protocol=protocol)


def write(folder, layout):
    """The files of a layout, and what is in them."""
    ten, binary = layout.startswith("cifar10-"), layout.endswith("binary")
    names = (
        [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
        if ten
        else ["train", "test"]
    )
    each = [rows(seed, 1 if ten else 2) for seed in range(len(names))]
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in zip(names, each, strict=True):
        content = values.tobytes() if binary else pickled(values, 1 if ten else 2)
        (folder / (f"{name}.bin" if binary else name)).write_bytes(content)
    return each


@pytest.mark.parametrize(
    "layout", ["cifar10-binary", "cifar10-python", "cifar100-binary", "cifar100-python"]
)
def test_every_layout_gives_the_images_in_order_with_their_fine_labels(layout, tmp_path):
    each = write(tmp_path, layout)
    data = load_data(str(tmp_path))
    num_labels = 1 if layout.startswith("cifar10-") else 2
    train = np.concatenate(each[:-1])
    assert data.image_shape == (3, 32, 32)
    assert not data.resizable
    images = torch.cat([data.train.images, data.validation.images])
    assert np.array_equal(images.reshape(-1, 3072).numpy(), train[:, num_labels:])
    assert np.array_equal(
        torch.cat([data.train.labels, data.validation.labels]), train[:, num_labels - 1]
    )
    assert np.array_equal(data.test.labels, each[-1][:, num_labels - 1])


@pytest.mark.parametrize("inside", ["cifar10", "cifar10/cifar-10-batches-bin"])
def test_the_name_finds_the_folder_and_the_one_that_the_archive_unpacks_to(
    inside, tmp_path, monkeypatch
):
    write(tmp_path / inside, "cifar10-binary")
    monkeypatch.setenv("SPARSEGATE_DATA", str(tmp_path))
    assert len(load_data("cifar10").test) == COUNT


def test_a_name_without_its_folder_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSEGATE_DATA", str(tmp_path))
    with pytest.raises(
        ValueError, match=r"there is no folder .*cifar10; put cifar10 there, set SPARSEGATE_DATA"
    ):
        load_data("cifar10")


class Evil:
    def __reduce__(self):
        return print, ("ran",)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (
            pickle.dumps(Evil(), protocol=2),
            "asks for __builtin__.print, which no batch of CIFAR needs",
        ),
        (b"ca\nb\x0bc\n.", r"it asks for a\.b c, which no batch of CIFAR needs"),
        (pickle.dumps({b"data": 1}, protocol=2), "not a batch of CIFAR, or is damaged"),
        (pickled(rows(0, 1), 1)[:5000], "not a batch of CIFAR, or is damaged"),
        (pickled(rows(0, 1)[:, :2000], 1), r"its images are uint8 of shape \(4, 1999\)"),
        (b"", "not a batch of CIFAR, or is damaged"),
        (
            pickled(rows(0, 1), 1).replace(b"latin1", b"la!in1"),
            r"or is damaged \(it encodes something that is not a text in latin1\)",
        ),
        (
            pickled(rows(0, 1) + np.eye(4, 3073, dtype=np.uint8) * 100, 1),
            "data_batch_3 is damaged: expected labels from 0 to 9, got 1",
        ),
    ],
)
def test_a_pickle_that_is_no_batch_is_refused_and_runs_nothing(content, wanted, tmp_path, capsys):
    write(tmp_path, "cifar10-python")
    (tmp_path / "data_batch_3").write_bytes(content)
    with pytest.raises(ValueError, match=wanted):
        load_data(str(tmp_path))
    assert "ran" not in capsys.readouterr().out


def test_a_truncated_binary_file_is_refused_by_name(tmp_path):
    write(tmp_path, "cifar10-binary")
    path = tmp_path / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"data_batch_2.bin is truncated or damaged: .* got 12291"):
        load_data(str(tmp_path))


def test_a_label_of_no_class_is_refused_by_name(tmp_path):
    values = write(tmp_path, "cifar10-binary")[1].copy()
    values[3, 0] = 10
    (tmp_path / "data_batch_2.bin").write_bytes(values.tobytes())
    with pytest.raises(
        ValueError, match=r"data_batch_2.bin is damaged: expected labels from 0 to 9, got 10"
    ):
        load_data(str(tmp_path))


@pytest.mark.parametrize("layout", ["cifar10-binary", "cifar10-python"])
def test_a_file_that_is_missing_is_named(layout, tmp_path):
    write(tmp_path, layout)
    (missing,) = tmp_path.glob("data_batch_3*")
    missing.unlink()
    with pytest.raises(
        ValueError, match=f"has files of CIFAR-10, but lacks {missing.name}; get the archive again"
    ):
        load_data(str(tmp_path))
