"""A network for a browser is all that its layers are, or is refused."""

import pytest
import torch
from safetensors.torch import load
from torch import nn

from sparsegate.export import Normalise, for_browser, to_web
from sparsegate.files import compress


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4)
    )


def test_the_layers_and_the_file_are_those_of_the_model():
    network = for_browser(model(), example=torch.randn(5, 1, 8, 8))
    assert [(layer["kind"], layer["relu"], layer["outputs"]) for layer in network.layers] == [
        ("conv", True, 3),
        ("linear", False, 4),
    ]
    assert (network.image, network.num_classes, network.num_weights) == ((1, 8, 8), 4, 27 + 108)
    assert torch.equal(load(network.file)["1.weight"], model()[4].weight)


def test_samples_are_the_bytes_of_one_image_of_each_answer():
    images = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8)
    normalise = Normalise(30.0, 50.0)
    network = for_browser(model(), example=normalise(images), normalise=normalise)
    answers = model()(normalise(images)).argmax(1).tolist()
    expected = [images[answers.index(answer)].numpy().tobytes() for answer in sorted(set(answers))]
    assert list(network.samples) == expected


def test_the_bytes_in_a_page_are_those_of_the_file(tmp_path):
    packed = compress(model())
    packed.save(tmp_path / "network.sparse.safetensors")
    from sparsegate.files import encode_safetensors

    assert (
        encode_safetensors(packed.entries, packed.same)
        == (tmp_path / "network.sparse.safetensors").read_bytes()
    )


@pytest.mark.parametrize(
    ("made", "example", "words", "wanted"),
    [
        (lambda: nn.Linear(4, 2), torch.zeros(1, 4), {}, r"got \(1, 4\)"),
        (lambda: nn.Conv2d(3, 2, 1), torch.zeros(1, 3, 2, 2), {}, r"got \(1, 3, 2, 2\)"),
        (
            model,
            torch.zeros(1, 1, 8, 8),
            {"max_weights": 10},
            "expected at most 10 weights that are not zero, got 135",
        ),
    ],
)
def test_what_cannot_be_a_page_is_refused(made, example, words, wanted, tmp_path):
    with pytest.raises(ValueError, match=wanted):
        to_web(made(), tmp_path / "page.html", example=example, **words)
    assert not list(tmp_path.iterdir())


def test_a_page_ends_in_html(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.html, got 'page\.htm'"):
        to_web(model(), tmp_path / "page.htm", example=torch.zeros(1, 1, 8, 8))
