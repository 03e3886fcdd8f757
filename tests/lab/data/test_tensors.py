"""A dataset may be four tensors: of a file, or of a function of the user's own."""

import pytest
import torch
from safetensors.torch import save_file

from sparsegate_lab.data import load_data
from sparsegate_lab.data.tensors import tensor_dataset


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
