"""Gates take their first places by what the loss has said about them."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.gates import Constant, gate, gates, weights
from sparsegate.optimizers import GateSGD
from sparsegate.target import Target
from sparsegate.target.importance import set_by_importance_

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


def test_the_gate_with_the_largest_pushes_is_at_one_and_all_are_open_in_their_order_over_all_layers():
    one, other = torch.zeros(3), torch.zeros(2)
    set_by_importance_([one, other], [torch.tensor([1e-6, 0.0, 1e-30]), torch.tensor([1e-4, 1e-5])])
    assert other[0] == 1
    assert other[0] > other[1] > one[0] > one[2] == one[1] > 0.5
    assert other[0] - other[1] == pytest.approx(1 / 32)


def test_after_the_dense_phase_gates_are_in_the_order_of_the_squares_of_what_the_loss_said():
    model = network()
    optimizer = GateSGD(model, target=TARGET, steps=STEPS)
    seen = trained(model, optimizer, range(BEGIN))
    assert all((each.gate == 0.6).all() for each in gates(model).values())  # they only listen
    trained(model, optimizer, range(BEGIN, BEGIN + 1))
    squares = torch.cat([sum(step[layer] ** 2 for step in seen).flatten() for layer in range(2)])
    placed = torch.cat([each.gate.flatten() for each in gates(model).values()])
    shut = squares[placed <= 0.5]
    assert 0 < len(shut) < len(squares)
    assert shut.max() <= squares[placed > 0.5].min()
    assert (next(iter(gates(model).values())).gate[:, 5] <= 0.5).all()  # whose inputs were silent
    assert all(
        "heard" not in state for state in optimizer.state.values()
    )  # its memory is free again


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
