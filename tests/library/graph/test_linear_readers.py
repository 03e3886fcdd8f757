"""Who reads a layer's units, and why they cannot change in number."""

import pytest
from torch import nn

from sparsegate.graph import linear_readers
from sparsegate_lab.models import LeNet5, LeNet300


class Net(nn.Module):
    """Layers in a row on pictures of one row of four."""

    image_shape = (1, 1, 4)

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize(
    ("model", "name", "reader"), [(LeNet5, "fc1", "fc2"), (LeNet300, "fc2", "fc3")]
)
def test_the_next_layer_reads_the_units(model, name, reader):
    model = model()
    assert linear_readers(model, name) == [getattr(model, reader)]
    assert model.training


@pytest.mark.parametrize(
    ("model", "name", "problem"),
    [
        (LeNet300(), "fc3", "they meet output"),
        (LeNet5(), "conv2", "a norm or another kind of layer reads them"),
        (
            Net(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)),
            "layers.1",
            "a norm or another kind",
        ),
        (Net(nn.Linear(4, 3), nn.Softmax(1), nn.Linear(3, 2)), "layers.1", "they meet"),
    ],
)
def test_units_that_others_need_cannot_change_in_number(model, name, problem):
    with pytest.raises(
        ValueError, match=f"the number of outputs of {name} cannot change: .*({problem})"
    ):
        linear_readers(model, name)


def test_a_model_that_does_not_say_what_it_takes_is_refused():
    with pytest.raises(ValueError, match=r"expected the input shape in Sequential\.image_shape"):
        linear_readers(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), "0")
