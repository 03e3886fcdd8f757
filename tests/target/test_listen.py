"""Gates take their first places by what the loss has said about them."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.gates import Constant, gate, gates, weights
from sparsegate.optimizer import GateSGD
from sparsegate.target import Target, place_

STEPS, BEGIN = 40, 8
TARGET = Target(keep=0.2, begin=BEGIN / STEPS, travel=1e-3, listen=True)


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return gate(model, start=Constant(0.6))


def trained(model: nn.Module, optimizer: GateSGD, steps: range) -> list[list[torch.Tensor]]:
    """Trains on inputs of which the last is silent, and returns the gates' gradients of every step."""
    seen = []
    sgd = torch.optim.SGD(weights(model), lr=0.1)
    for step in steps:
        source = torch.Generator().manual_seed(step)
        images = torch.randn(30, 6, generator=source)
        images[:, 5] = 0.0
        F.cross_entropy(model(images), images[:, :3].argmax(1)).backward()
        seen.append([each.gate.grad.clone() for each in gates(model).values()])
        for each in (sgd, optimizer):
            each.step()
            each.zero_grad()
    return seen


def test_a_gate_s_place_is_the_share_of_its_squares_among_those_of_its_layer_that_are_no_smaller():
    one, other = torch.zeros(4), torch.zeros(2)
    place_([one, other], [torch.tensor([3e-6, 0.0, 1e-6, 1e-30]), torch.tensor([1e-9, 9e-9])])
    torch.testing.assert_close(one[[0, 2]], 1 + torch.tensor([1.0, 0.25]).log10() / 32)
    torch.testing.assert_close(other, 1 + torch.tensor([0.1, 1.0]).log10() / 32)
    assert one[1] == one[3] == 0.51  # still open


def test_after_the_dense_phase_gates_are_in_the_order_of_the_squares_of_what_the_loss_said():
    model = network()
    optimizer = GateSGD(model, target=TARGET, steps=STEPS)
    seen = trained(model, optimizer, range(BEGIN))
    assert all((each.gate == 0.6).all() for each in gates(model).values())  # they only listen
    trained(model, optimizer, range(BEGIN, BEGIN + 1))
    shut = [each.gate <= 0.5 for each in gates(model).values()]
    squares = [sum(each[layer] ** 2 for each in seen) for layer in range(2)]
    assert 0 < shut[0].sum() < shut[0].numel()
    assert squares[0][shut[0]].max() <= squares[0][~shut[0]].min()
    assert not shut[1].any()  # the last layer has fewer weights, and each a larger share
    assert (next(iter(gates(model).values())).gate[:, 5] <= 0.5).all()  # whose inputs were silent
    assert all("heard" not in state for state in optimizer.state.values())  # its memory is free again


@pytest.mark.parametrize("stop", [3, BEGIN, 20])
def test_a_training_that_listens_can_be_resumed_at_any_step(stop):
    whole = network()
    trained(whole, GateSGD(whole, target=TARGET, steps=STEPS), range(STEPS))
    model = network()
    optimizer = GateSGD(model, target=TARGET, steps=STEPS)
    trained(model, optimizer, range(stop))
    state = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    again = network()
    again.load_state_dict(state[0])
    resumed = GateSGD(again, target=TARGET, steps=STEPS)
    resumed.load_state_dict(state[1])
    trained(again, resumed, range(stop, STEPS))
    for one, other in zip(whole.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert resumed.found.kept == round(0.2 * resumed.found.total)
