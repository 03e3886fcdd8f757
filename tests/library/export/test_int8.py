"""Networks in 8 bits stay near those in floats."""

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn
from torch.nn.utils import prune

from sparsegate.export import generate, hard_wire
from sparsegate_lab.data import mnist
from sparsegate_lab.models import LeNet300


def test_every_kind_of_network_stays_near(network):
    model, images = network
    with torch.no_grad():
        wanted, found = model(images), hard_wire(model, example=images, dtype="int8")(images)
    assert found.shape == wanted.shape
    assert (found - wanted).abs().max() < 0.05 * wanted.abs().max()


def test_whole_numbers_are_exact():
    # 127 and 255 are the largest numbers of steps, so that every step is one.
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    model[0].weight.data, model[0].bias.data = (
        torch.tensor([[1.0, 127.0], [-127.0, 0.0]]),
        torch.tensor([1.0, 0.0]),
    )
    model[2].weight.data, model[2].bias.data = torch.tensor([[127.0, -1.0]]), torch.tensor([-3.0])
    images = torch.tensor(
        [[127.0, 1.0], [-2.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    )  # 255 = 127 + 127 + 1
    fast = hard_wire(model, example=images, dtype="int8")
    assert fast(images).flatten().tolist() == [127 * 255 - 3, -254 - 3, 127 - 3, 127 * 129 - 3]


def test_a_trained_network_keeps_its_accuracy():
    data = mnist()
    torch.manual_seed(0)
    model, images, labels = (
        LeNet300(),
        data.normalise(data.train.images[:2000]),
        data.train.labels[:2000],
    )
    prune.random_unstructured(model.fc1, "weight", 0.97)
    prune.random_unstructured(model.fc2, "weight", 0.9)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(50):
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step(), optimizer.zero_grad()
    for layer in (model.fc1, model.fc2):
        prune.remove(layer, "weight")
    fast = hard_wire(model, example=images[:200], dtype="int8")
    right = [(each(images).argmax(1) == labels).float().mean().item() for each in (model, fast)]
    assert right[0] > 0.7
    assert abs(right[0] - right[1]) < 0.01


def test_sums_that_may_not_fit_are_refused():
    model = nn.Linear(70_000, 1)
    nn.init.ones_(model.weight)
    with pytest.raises(ValueError, match="over 70,000 weights may exceed 32 bits"):
        generate(model, "net", example=torch.ones(1, 70_000), dtype="int8", max_weights=70_000)


def test_an_example_that_shows_no_values_is_refused():
    with pytest.raises(ValueError, match=r"expected typical images, got zeros only"):
        generate(nn.Linear(2, 1), "net", example=torch.zeros(3, 2), dtype="int8")


def test_another_type_is_refused():
    with pytest.raises((ValueError, TypeCheckError), match="int4"):
        generate(nn.Linear(2, 1), "net", example=torch.zeros(1, 2), dtype="int4")
