"""The mean of recent weights is measured, saved with an optimizer's state, and applied."""

import torch
from torch import nn

from sparsegate.gates import gate, gates
from sparsegate.target.recent_mean import RecentMean


def a_model():
    model = gate(nn.Sequential(nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2)))
    with torch.no_grad():
        for value in model[1].parameters():
            value.zero_()
    return model


def original(model):
    return model[0].parametrizations.weight.original


def set_(model, value):
    with torch.no_grad():
        original(model).fill_(value)
        model[1].running_mean.fill_(10 * value)


def test_weights_and_statistics_are_replaced_for_a_moment_and_gates_are_not():
    model, memory = a_model(), {}
    mean = RecentMean(model)
    mean.keep_in(memory)
    for value in (1.0, 2.0, 6.0):
        set_(model, value)
        mean.add()
    before = gates(model)["0.weight"].gate.detach().clone()
    with mean.applied():
        assert original(model).eq(3.0).all()
        assert model[1].running_mean.allclose(torch.tensor(30.0))
        assert torch.equal(gates(model)["0.weight"].gate, before)
    assert original(model).eq(6.0).all()
    mean.apply_()
    assert original(model).eq(3.0).all()


def test_without_steps_there_is_no_mean():
    model = a_model()
    mean = RecentMean(model)
    set_(model, 4.0)
    with mean.applied():
        assert original(model).eq(4.0).all()
    mean.add()
    mean.forget()
    set_(model, 5.0)
    mean.apply_()
    assert original(model).eq(5.0).all()


def test_a_mean_goes_on_in_another_memory():
    model, first, second = a_model(), {}, {}
    mean = RecentMean(model)
    mean.keep_in(first)
    set_(model, 1.0)
    mean.add()
    mean.keep_in(second)
    set_(model, 3.0)
    mean.add()
    mean.apply_()
    assert original(model).eq(2.0).all()
    assert first.keys() == second.keys()
