"""GatedSGD makes the steps of SGD and GateSGD, from one gradient."""

import copy

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.optimizers import take_over_


def network(seed=0, **settings):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4))
    model = model.to(memory_format=torch.channels_last)
    sg.gate(model, **settings)
    for each in sg.gates(model).values():
        nn.init.uniform_(each.gate)
    return model


def batch(number):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(6, 1, 5, 5, generator=generator), torch.randint(4, (6,), generator=generator)


def steps(model, *optimizers, first=0, last=6):
    for number in range(first, last):
        images, labels = batch(number)
        nn.functional.cross_entropy(model(images), labels).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return model


PENALTY = sg.Penalty(count=2.0, bimodal=1.0)
SETTINGS = {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.01}


def together(model, **settings):
    return sg.GatedSGD(
        model, **SETTINGS, gate_lr=3.0, gate_momentum=0.7, penalty=PENALTY, **settings
    )


def test_the_steps_are_those_of_sgd_and_gatesgd_to_the_last_bit():
    apart, one = network(), network()
    sgd = torch.optim.SGD(sg.weights(apart), **SETTINGS)
    steps(apart, sgd, sg.GateSGD(apart, lr=3.0, momentum=0.7, penalty=PENALTY))
    steps(one, together(one))
    for name, value in apart.state_dict().items():
        assert torch.equal(value, one.state_dict()[name]), name


def test_a_weight_without_a_gradient_stands_still_as_by_sgd():
    apart, one = network(), network()
    sgd, own = (
        torch.optim.SGD(sg.weights(apart), **SETTINGS),
        sg.GateSGD(apart, lr=3.0, momentum=0.7, penalty=PENALTY),
    )
    both = together(one)
    for model, optimizers in ((apart, (sgd, own)), (one, (both,))):
        steps(model, *optimizers)
        for number in range(6, 9):  # the last layer is not asked any more
            images, _ = batch(number)
            model[0](images).square().sum().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        steps(model, *optimizers, first=9, last=12)
    for name, value in apart.state_dict().items():
        assert torch.equal(value, one.state_dict()[name]), name


def test_a_changed_price_and_rate_count_from_the_next_step():
    apart, one = network(), network()
    two, optimizer = sg.GateSGD(apart, lr=3.0, momentum=0.7, penalty=PENALTY), together(one)
    two.price = optimizer.price = 0.25
    two.param_groups[0]["lr"] = optimizer.gate_lr = 0.5
    steps(apart, torch.optim.SGD(sg.weights(apart), **SETTINGS), two)
    steps(one, optimizer)
    for name, value in apart.state_dict().items():
        assert torch.equal(value, one.state_dict()[name]), name


def test_gates_get_no_gradient_and_keep_no_room_for_one():
    model = network()
    together(model)
    model(batch(0)[0]).sum().backward()
    assert all(each.gate.grad is None for each in sg.gates(model).values())


@pytest.mark.parametrize("small", [False, True])
def test_a_resumed_training_equals_an_uninterrupted_one(small):
    whole = network()
    torch.manual_seed(5)
    optimizer = together(whole, small=small)
    steps(whole, optimizer, last=3)
    saved = copy.deepcopy((whole.state_dict(), optimizer.state_dict()))
    torch.manual_seed(7)
    steps(whole, optimizer, first=3)
    again = network(seed=1)
    other = together(again, small=small)
    again.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    torch.manual_seed(7)
    steps(again, other, first=3)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_the_small_state_takes_four_bytes_a_weight():
    model = network()
    optimizer = together(model, small=True)
    steps(model, optimizer, last=1)
    weight, gate = optimizer.param_groups[0]["params"][0], optimizer.param_groups[1]["params"][0]
    speed = optimizer.state[weight]["gate_momentum_buffer"]
    assert gate.element_size() + speed.element_size() == 4


def test_the_small_state_ends_where_the_full_one_ends():
    full, small = network(), network()
    torch.manual_seed(0)
    steps(full, together(full), last=12)
    steps(small, together(small, small=True), last=12)
    for one, two in zip(sg.gates(full).values(), sg.gates(small).values(), strict=True):
        assert float(((one.gate > 0.5) == (two.gate > 0.5)).float().mean()) > 0.9


def test_a_model_trained_with_the_small_state_finishes_to_an_ordinary_one():
    model = network()
    steps(model, together(model, small=True))
    expected = model.eval()(batch(0)[0])
    finished = sg.finish(model)
    assert type(finished[0]) is nn.Conv2d
    torch.testing.assert_close(finished(batch(0)[0]), expected)


def test_masks_drawn_by_chance_are_refused():
    with pytest.raises(ValueError, match=r"Threshold only, 0\.weight has Sample"):
        together(network(draw=sg.Sample()))


def test_frozen_weights_are_refused():
    model = network()
    model[0].parametrizations.weight.original.requires_grad_(False)
    with pytest.raises(ValueError, match=r"0\.weight is frozen"):
        together(model)


@pytest.mark.parametrize(
    "wrong", [{"lr": -1.0}, {"momentum": 1.0}, {"gate_lr": -0.1}, {"gate_momentum": -0.1}]
)
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        sg.GatedSGD(network(), **wrong)


def test_nothing_is_taken_over_twice():
    model = network()
    take_over_(model, small=True)
    together(model)
    assert next(iter(sg.gates(model).values())).gate.dtype == torch.float16


def test_a_copy_of_model_and_optimiser_goes_on_as_they_do():
    model = network()
    optimizer = together(model)
    steps(model, optimizer, last=2)
    other, its = copy.deepcopy((model, optimizer))
    steps(model, optimizer, first=2)
    steps(other, its, first=2)
    assert all(
        torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items()
    )
