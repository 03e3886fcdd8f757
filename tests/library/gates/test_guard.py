"""An optimizer that moves gates as if they were weights, or a second one, is refused at once."""

import copy

import pytest
import torch
from torch import nn

import sparsegate as sg

INPUTS = torch.linspace(-1, 1, 8).reshape(2, 4)


def train(model, *optimizers, steps=1):
    for _ in range(steps):
        model(INPUTS).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()


@pytest.mark.parametrize("copied", [False, True])
def test_a_plain_optimiser_of_weights_and_gates_is_refused_at_its_first_step(copied):
    model = sg.gate(nn.Linear(4, 3))
    model = copy.deepcopy(model) if copied else model
    with pytest.raises(ValueError, match=r"AdamW moves gates as if they were weights.*GatedAdamW"):
        train(model, torch.optim.AdamW(model.parameters()))


def test_an_optimiser_of_gates_alone_is_on_purpose():
    model = sg.gate(nn.Linear(4, 3))
    gates = [gate.gate for gate in sg.gates(model).values()]
    train(model, torch.optim.SGD(sg.weights(model), lr=0.1), torch.optim.Adam(gates))


@pytest.mark.parametrize("kinds", [(sg.GateSGD, sg.GatedAdamW), (sg.GateSGD, sg.GateSGD)])
def test_two_optimisers_of_the_same_gates_are_refused_at_the_second_step(kinds):
    model = sg.gate(nn.Linear(4, 3))
    optimizers = [kind(model) for kind in kinds]
    train(model, *optimizers)
    with pytest.raises(ValueError, match="two optimizers move the same gates"):
        train(model, *optimizers)


def test_a_new_optimiser_takes_over_from_an_old_one():
    model = sg.gate(nn.Linear(4, 3))
    old = sg.GateSGD(model)
    train(model, old, steps=2)
    train(model, sg.GateSGD(model), steps=2)


def test_other_models_are_left_alone():
    model, other = sg.gate(nn.Linear(4, 3)), nn.Linear(4, 3)
    train(other, torch.optim.AdamW(other.parameters()), steps=2)
    sg.finish(model)
    train(model, torch.optim.AdamW(model.parameters()), steps=2)
