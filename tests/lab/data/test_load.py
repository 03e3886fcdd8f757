"""A name or a path finds its data, or a message that says what would be data."""

import pytest
import torch
from safetensors.torch import save_file

from sparsegate_lab.data import load_data
from sparsegate_lab.data.load import tensor_dataset


@pytest.mark.parametrize("files", [(), ("notes.txt", "train.parquet")])
def test_a_folder_without_data_is_told_everything_that_would_be(tmp_path, files):
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(
        ValueError,
        match=r"has no known data: expected train and val .* CIFAR-10 .* idx files",
    ):
        load_data(str(tmp_path))


def test_a_folder_with_some_idx_files_is_told_which_is_missing(tmp_path):
    (tmp_path / "train-labels-idx1-ubyte").touch()
    with pytest.raises(ValueError, match="has no train-images-idx3-ubyte"):
        load_data(str(tmp_path))


def test_a_folder_that_is_not_there_is_told_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSEGATE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="put cifar10 there, set SPARSEGATE_DATA"):
        load_data("cifar10")


def test_a_path_to_nothing_is_told_that_there_is_no_such_folder(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"no data folder at .*/gone: there is no such folder; expected .* photographs",
    ):
        load_data(str(tmp_path / "gone"))


def test_a_path_to_a_file_is_told_that_it_is_one(tmp_path):
    (tmp_path / "photographs.tar").touch()
    with pytest.raises(
        ValueError, match=r"no data folder at .*/photographs.tar: it is a file; pass the folder"
    ):
        load_data(str(tmp_path / "photographs.tar"))


def idx_folder(folder, as_idx, train, test):
    """An idx folder of blank images with these labels."""
    for stem, labels in {"train": train, "t10k": test}.items():
        images = torch.zeros(len(labels), 2, 2, dtype=torch.uint8)
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(as_idx(images))
        values = torch.tensor(labels, dtype=torch.uint8)
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(as_idx(values))
    return str(folder)


def test_a_test_label_that_training_does_not_have_is_refused(tmp_path, as_idx):
    name = idx_folder(tmp_path, as_idx, [0, 1, 2, 1, 2], [0, 77, 2])
    with pytest.raises(
        ValueError,
        match=r"expected test labels from 0 to 2, .* got 77 \(1 of 3 test images .* correct the",
    ):
        load_data(name)


def test_a_stray_label_that_makes_classes_without_images_is_noted(tmp_path, as_idx):
    data = load_data(idx_folder(tmp_path, as_idx, [0, 1, 2, 200, 1, 2], [0, 1]))
    assert data.num_classes == 201
    assert data.notes == (
        "197 of 201 classes have no training image: 3, 4, 5, 6, 7 ...; "
        "the largest label, 200, has 1",
    )


def test_a_class_with_one_validation_image_alone_counts_as_trained(tmp_path, as_idx):
    assert load_data(idx_folder(tmp_path, as_idx, [0, 1, 2], [0, 2])).notes == ()


def test_a_change_of_a_label_or_an_image_changes_what_tells_the_data(tmp_path, as_idx):
    before = load_data(idx_folder(tmp_path, as_idx, [0, 1, 0, 1], [0, 1])).counts
    assert load_data(str(tmp_path)).counts == before
    assert load_data(idx_folder(tmp_path, as_idx, [1, 0, 0, 1], [0, 1])).counts != before
    images = torch.zeros(2, 2, 2, dtype=torch.uint8)
    images[1, 0, 0] = 1
    idx_folder(tmp_path, as_idx, [0, 1, 0, 1], [0, 1])
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(as_idx(images))
    assert load_data(str(tmp_path)).counts != before


def tensors(shape=(30, 3, 8, 8)):
    torch.manual_seed(0)
    return {
        "train_images": torch.randint(256, shape).byte(),
        "train_labels": torch.arange(len(torch.empty(shape))) % 4,
        "test_images": torch.randint(256, (8, *shape[1:])).byte(),
        "test_labels": (torch.arange(8) % 4).int(),
    }


def test_a_safetensors_file_is_a_dataset(tmp_path):
    given = tensors()
    save_file(given, tmp_path / "own.safetensors")
    data = load_data(str(tmp_path / "own.safetensors"))
    assert (len(data.train), len(data.validation), len(data.test)) == (27, 3, 8)
    assert data.image_shape == (3, 8, 8)
    assert data.num_classes == 4
    assert torch.equal(
        torch.cat([data.train.images, data.validation.images]), given["train_images"]
    )
    assert torch.equal(data.test.labels, given["test_labels"].long())


def test_a_function_gives_a_dataset_and_grey_images_need_no_channel(tmp_path):
    (tmp_path / "own_digits.py").write_text(
        "import torch\n"
        "def small():\n"
        "    images, labels = torch.zeros(20, 5, 6).byte(), torch.arange(20) % 2\n"
        "    return {'train_images': images, 'train_labels': labels,\n"
        "            'test_images': images[:4], 'test_labels': labels[:4]}\n"
    )
    assert load_data(f"{tmp_path / 'own_digits.py'}:small").image_shape == (1, 5, 6)
    with pytest.raises(ValueError, match=r"own_digits\.py has no function or class large"):
        load_data(f"{tmp_path / 'own_digits.py'}:large")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_labels": None}, r"x: expected the tensors train_images, .* got \['test_images', "),
        ({"train_images": torch.rand(30, 3, 8, 8)}, r"x: expected train_images of uint8 .*float32"),
        ({"train_images": torch.zeros(30, 8).byte()}, r"got torch.uint8 of \(30, 8\)"),
        (
            {"train_labels": torch.zeros(29).long()},
            r"x: expected train_labels .* each of 30 images",
        ),
        (
            {"test_labels": torch.zeros(8)},
            r"x: expected test_labels .* got torch.float32 of \(8,\)",
        ),
        (
            {"test_labels": torch.full((8,), -1)},
            "x: expected test_labels with a whole number from 0",
        ),
        (
            {"test_images": torch.zeros(8, 1, 8, 8).byte()},
            r"\(3, 8, 8\) and test images \(1, 8, 8\)",
        ),
    ],
)
def test_other_tensors_are_refused_in_words(changes, message):
    given = {name: value for name, value in (tensors() | changes).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        tensor_dataset(given, "x")


def test_what_is_no_dictionary_or_no_safetensors_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"x: expected the tensors .* got list"):
        tensor_dataset([torch.zeros(1)], "x")
    (tmp_path / "bad.safetensors").write_bytes(b"abc")
    with pytest.raises(ValueError, match=r"bad\.safetensors cannot be read"):
        load_data(str(tmp_path / "bad.safetensors"))
