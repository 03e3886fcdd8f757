"""Gates take their first places by what the loss has said about them."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.gates import Constant, gate, gates, weights
from sparsegate.optimizers import GateSGD
from sparsegate.target import Target
from sparsegate.target.importance import by_importance

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
    one, other = by_importance([torch.tensor([1e-6, 0.0, 1e-30]), torch.tensor([1e-4, 1e-5])])
    assert other[0] == 1
    assert other[0] > other[1] > one[0] > one[2] == one[1] > 0.5
    assert other[0] - other[1] == pytest.approx(1 / 32)


@pytest.mark.parametrize("follow", [False, True])
def test_after_the_dense_phase_gates_are_in_the_order_of_the_squares_of_what_the_loss_said(follow):
    model = network()
    optimizer = GateSGD(model, target=replace(TARGET, follow=follow), steps=STEPS)
    seen = trained(model, optimizer, range(BEGIN - 1))
    assert all((each.gate == 0.6).all() for each in gates(model).values())  # they only listen
    seen += trained(model, optimizer, range(BEGIN - 1, BEGIN))
    # A mean over a tenth of the training, which is four steps.
    weight = [0.75 ** (len(seen) - at) if follow else 1.0 for at in range(len(seen))]
    squares = torch.cat(
        [
            sum(part * step[layer] ** 2 for part, step in zip(weight, seen, strict=True)).flatten()
            for layer in range(2)
        ]
    )
    placed = torch.cat([each.gate.flatten() for each in gates(model).values()])
    low = squares[placed <= placed.median()]
    assert 0 < len(low) < len(squares)
    assert low.max() <= squares[placed > placed.median()].min()
    silent = next(iter(gates(model).values())).gate[:, 5]
    assert silent.tolist() == pytest.approx([0.51] * 8)


def test_a_gate_rises_when_the_loss_begins_to_need_its_weight():
    model = gate(nn.Linear(2, 1, bias=False), start=Constant(0.6))
    target = Target(weights=1, begin=0.1, reach=0.8, travel=1e-6, listen=True)
    optimizer = GateSGD(model, target=target, steps=100)
    (each,) = gates(model).values()
    for step in range(100):
        loud = 0 if step < 40 else 1
        images = torch.zeros(1, 2)
        images[0, loud] = 1.0
        model(images).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 30:
            assert each.gate[0, 0] > each.gate[0, 1]
    assert each.gate.tolist() == [[0.0, 1.0]]
    assert not any(state.keys() & {"heard", "order"} for state in optimizer.state.values())


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
