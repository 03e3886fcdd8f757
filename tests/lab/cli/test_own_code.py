"""The command trains a class of the user's own on tensors of the user's own."""

import pytest
import torch

from sparsegate.cli import main
from sparsegate_lab.models import find_model

CODE = """
import torch
from torch import nn

class Small(nn.Sequential):
    image_shape = (3, 8, 8)

    def __init__(self, num_classes):
        super().__init__(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, num_classes))

class Shapeless(nn.Module):
    pass

class Fixed(nn.Module):
    image_shape = (3, 8, 8)

def data():
    torch.manual_seed(0)
    labels = torch.arange(60) % 3
    images = (torch.rand(60, 3, 8, 8) * 100).byte()
    images[torch.arange(60), labels] += 120
    return {"train_images": images, "train_labels": labels,
            "test_images": images[:20], "test_labels": labels[:20]}
"""


@pytest.fixture
def code(tmp_path):
    path = tmp_path / "own_code_of_a_test.py"
    path.write_text(CODE)
    return path


def test_a_class_and_a_function_of_the_users_own_are_trained_and_packed(code, tmp_path, capsys):
    folder = tmp_path / "runs"
    words = [
        "--data",
        f"{code}:data",
        "--epochs",
        "2",
        "--batch-size",
        "9",
        "--folder",
        str(folder),
    ]
    assert not main(["train", f"{code}:Small", *words, "--target.keep", "0.5"])
    (run,) = folder.iterdir()
    assert run.name.endswith("own_code_of_a_test.py-Small-learned_gates-" + run.name[-8:])
    assert (run / "report.html").exists()
    assert "no page was made" not in capsys.readouterr().out
    assert not main(["compress", str(run), str(tmp_path / "small.sg"), "--bits", "3"])
    assert not main(["inspect", str(tmp_path / "small.sg"), "--model", f"{code}:Small"])
    assert "3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Nothing", "has no function or class Nothing"),
        ("data", "expected a class of torch.nn.Module at"),
        ("Shapeless", "needs the shape of the images that it takes, such as image_shape ="),
        ("Fixed", "cannot be made with num_classes=3"),
    ],
)
def test_what_is_no_model_is_one_line(name, message, code, tmp_path, capsys):
    words = ["--data", f"{code}:data", "--epochs", "1", "--folder", str(tmp_path / "runs")]
    assert main(["train", f"{code}:{name}", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert error.count("\n") == 0


def test_a_class_of_an_installed_module_is_found():
    assert find_model("sparsegate_lab.models.lenet5:LeNet5").image_shape == (1, 28, 28)
    assert torch.nn.Module in find_model("lenet300").__mro__
