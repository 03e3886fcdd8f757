"""Gates on rectifiers: closed, the model is as it was; open, two layers are one."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate_lab.layers import GatedRectifier, Lowered, is_rectified, straighten_


def between(start):
    """Two layers with the model's own rectifier between, the first one's gated."""
    torch.manual_seed(0)
    gated = GatedRectifier(nn.Linear(4, 6), start=start)
    return nn.Sequential(gated, nn.ReLU(), Lowered(nn.Linear(6, 3), of=gated))


@pytest.mark.parametrize(
    ("start", "activation"), [(0.1, F.relu), (0.5, F.relu), (0.9, lambda x: x)]
)
def test_the_rectifier_is_there_or_not_whatever_the_model_does_after_it(start, activation):
    model, x = between(start), 5 * torch.randn(7, 4)
    wanted = model[2].inner(activation(model[0].inner(x)))
    torch.testing.assert_close(model(x), wanted, atol=1e-5, rtol=1e-5)


def test_a_closed_gate_feels_what_going_straight_would_change():
    model = between(0.1)
    model[0].inner.weight.data = torch.eye(6, 4)
    model[0].inner.bias.data.zero_()
    model[2].inner.weight.data.fill_(1.0)
    model(torch.tensor([[2.0, -3.0, -4.0, 0.0]])).sum().backward()
    assert model[0].straight.grad.item() == pytest.approx(3 * (-3.0 - 4.0))  # three outputs


def test_only_the_gate_is_new():
    model = between(0.1)
    assert [name for name, _ in model.named_parameters()] == [
        *("0.straight", "0.inner.weight", "0.inner.bias", "2.inner.weight", "2.inner.bias"),
    ]


@pytest.mark.parametrize(
    "num_read", [2, 6]
)  # two units are doubled; of six, the product with the reader is
def test_straight_layers_compute_the_same_with_the_rectifier_as_without(num_read):
    torch.manual_seed(0)
    layer, reader, x = nn.Linear(5, 12), nn.Linear(12, 3), torch.randn(9, 5)
    reader.weight.data[:, num_read:] = 0
    wanted = reader(layer(x))
    straighten_(layer, reader)
    torch.testing.assert_close(reader(F.relu(layer(x))), wanted, atol=1e-5, rtol=1e-5)
    assert int((layer.weight != 0).any(1).sum()) == 2 * min(num_read, 3)


def test_straight_layers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="takes 6 rectified units, and there are 5"):
        straighten_(nn.Linear(4, 5), nn.Linear(5, 3))


@pytest.mark.parametrize(
    ("activation", "found"),
    [(nn.ReLU(), True), (nn.Tanh(), False), (nn.Identity(), False), (nn.LeakyReLU(), False)],
)
def test_a_rectifier_is_found_by_trying(activation, found):
    model = nn.Sequential(nn.Linear(4, 6), activation, nn.Dropout(0.5), nn.Linear(6, 3))
    assert is_rectified(model, model[0], model[3], torch.zeros(2, 4)) is found
    assert model.training
    assert not model[0]._forward_hooks
    assert not model[3]._forward_pre_hooks
