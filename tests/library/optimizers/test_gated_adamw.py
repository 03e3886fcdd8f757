"""GatedAdamW makes the steps of AdamW on weights and of GateSGD on gates, as one optimizer."""

import copy

import pytest
import torch
from torch import nn

import sparsegate as sg

INPUTS = torch.linspace(-1, 1, 32).reshape(8, 4)


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return sg.gate(
        nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 3)),
        start=sg.Constant(0.6),
    )


def groups(model: nn.Module, decay: float) -> list[dict]:
    """What AdamW alone needs for the same decay."""
    decayed = [each for each in sg.weights(model) if each.ndim > 1]
    others = [each for each in sg.weights(model) if each.ndim == 1]
    return [
        {"params": decayed, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]


def train(model: nn.Module, *optimizers, first: int = 0, last: int = 10) -> None:
    for step in range(first, last):
        (model(INPUTS * (1 + step)) - 1).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def assert_equal(one: nn.Module, other: nn.Module) -> None:
    states = one.state_dict(), other.state_dict()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_the_steps_are_those_of_adamw_and_gatesgd_to_the_last_bit():
    apart, one = network(), network()
    adamw = torch.optim.AdamW(groups(apart, 0.1), lr=0.02, betas=(0.8, 0.95), eps=1e-6)
    train(apart, adamw, sg.GateSGD(apart, lr=2.0, penalty=sg.Penalty(count=0.3)))
    settings = {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}
    train(one, sg.GatedAdamW(one, **settings, gate_lr=2.0, penalty=sg.Penalty(count=0.3)))
    assert_equal(apart, one)


@pytest.mark.parametrize("fused", [None, False, True])
def test_while_all_gates_are_open_training_is_that_of_a_plain_model_and_adamw(fused):
    gated = network()
    plain = sg.finish(copy.deepcopy(gated))
    decayed = [each for each in plain.parameters() if each.ndim > 1]
    others = {"params": [each for each in plain.parameters() if each.ndim == 1]}
    parts = [{"params": decayed}, {**others, "weight_decay": 0.0}]
    settings = {"lr": 0.02, "weight_decay": 0.1, "fused": fused}
    train(plain, torch.optim.AdamW(parts, **settings))
    train(gated, sg.GatedAdamW(gated, **settings, gate_lr=0.0))
    assert_equal(plain, sg.finish(gated))


def test_clipping_leaves_the_gates_out():
    apart, one = network(), network()
    adamw, gates = torch.optim.AdamW(groups(apart, 0.01)), sg.GateSGD(apart, lr=2.0)
    for step in range(5):
        (apart(INPUTS * (1 + step)) - 1).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(sg.weights(apart), 0.1)
        assert norm > 0.1
        for each in (adamw, gates):
            each.step()
            each.zero_grad()
    train(one, sg.GatedAdamW(one, clip=0.1, gate_lr=2.0), last=5)
    torch.testing.assert_close(apart.state_dict(), one.state_dict())  # norms add up in other orders


def test_a_norm_that_clips_everything_is_refused():
    with pytest.raises(ValueError, match="clip is a norm above zero, or None for no clipping"):
        sg.GatedAdamW(network(), clip=0.0)


def test_a_parameter_group_of_the_user_keeps_its_settings():
    apart, one = network(), network()
    biases = lambda model: {"params": [model[0].bias], "weight_decay": 0.5, "lr": 0.1}
    theirs = groups(apart, 0.01)
    theirs[1]["params"] = [each for each in theirs[1]["params"] if each is not apart[0].bias]
    train(apart, torch.optim.AdamW([biases(apart), *theirs], lr=1e-3), sg.GateSGD(apart))
    train(one, sg.GatedAdamW(one, params=[biases(one)]))
    assert_equal(apart, one)


def test_gates_norms_and_biases_do_not_decay():
    model = network()
    optimizer = sg.GatedAdamW(model, lr=1.0, weight_decay=0.5, penalty=sg.Penalty(count=0.0))
    for each in model.parameters():
        each.grad = torch.zeros_like(each)
    before = copy.deepcopy(model.state_dict())
    optimizer.step()
    decayed = {name for name, each in model.state_dict().items() if not each.equal(before[name])}
    assert decayed == {
        "0.parametrizations.weight.original",
        "3.parametrizations.weight.original",
    }


def test_a_group_with_a_gate_is_refused():
    model = network()
    with pytest.raises(ValueError, match="params contains gates, which have a group of their own"):
        sg.GatedAdamW(model, params=[{"params": model.parameters()}])


@pytest.mark.parametrize("kind", [sg.GatedAdamW, sg.GatedSGD])
@pytest.mark.parametrize("settings", [{}, {"target": sg.Target(weights=12), "steps": 20}])
@pytest.mark.parametrize("stop", [2, 8, 17])
def test_a_resumed_training_equals_an_uninterrupted_one(kind, settings, stop):
    whole = network()
    optimizer = kind(whole, lr=0.02, **settings)
    train(whole, optimizer, last=stop)
    saved = copy.deepcopy((whole.state_dict(), optimizer.state_dict()))
    train(whole, optimizer, first=stop, last=20)
    again = network(seed=1)
    again.load_state_dict(saved[0])
    other = kind(again, lr=0.5, **settings)
    other.load_state_dict(saved[1])
    train(again, other, first=stop, last=20)
    assert_equal(whole, again)


@pytest.mark.parametrize("kind", [sg.GatedAdamW, sg.GatedSGD])
@pytest.mark.parametrize("listen", [False, True])
def test_training_ends_on_a_target(kind, listen):
    model = network()
    target = sg.Target(weights=12, listen=listen, evenly=0.5)
    optimizer = kind(model, lr=0.02, target=target, steps=40)
    train(model, optimizer, last=40)
    assert optimizer.found.ended
    assert (
        sum(int(each.count_nonzero()) for each in sg.finish(model).parameters() if each.ndim > 1)
        == 12
    )


def test_the_16_bit_gates_of_gatedsgd_end_on_a_target_too():
    model = network()
    train(model, sg.GatedSGD(model, small=True, target=sg.Target(weights=9), steps=40), last=40)
    assert sum(int((each.gate > 0.5).sum()) for each in sg.gates(model).values()) == 9


def test_a_target_on_gatedsgd_moves_gates_as_on_sgd_and_gatesgd():
    apart, one = network(), network()
    target = {"target": sg.Target(keep=0.3, listen=True), "steps": 40}
    sgd = torch.optim.SGD(sg.weights(apart), lr=0.05, momentum=0.9)
    train(apart, sgd, sg.GateSGD(apart, **target), last=40)
    train(one, sg.GatedSGD(one, lr=0.05, **target), last=40)
    assert_equal(apart, one)


@pytest.mark.parametrize("kind", [sg.GatedAdamW, sg.GatedSGD, sg.GateSGD])
def test_another_target_or_none_is_refused_when_a_state_is_loaded(kind):
    make = lambda **settings: kind(network(), **settings)
    saved = make(target=sg.Target(keep=0.5), steps=20).state_dict()
    with pytest.raises(ValueError, match="the saved optimizer has a target and this one has none"):
        make().load_state_dict(saved)
    with pytest.raises(ValueError, match="this one has a target and the saved optimizer has none"):
        make(target=sg.Target(keep=0.5), steps=20).load_state_dict(make().state_dict())
    for settings in (
        {"target": sg.Target(keep=0.4), "steps": 20},
        {"target": sg.Target(keep=0.5), "steps": 30},
    ):
        with pytest.raises(ValueError, match=r"another target: .*(keep=0\.5|steps=20) \(now "):
            make(**settings).load_state_dict(saved)


def test_the_state_of_a_target_from_before_it_named_its_target_is_loaded():
    settings = {"target": sg.Target(keep=0.5), "steps": 20}
    saved = sg.GateSGD(network(), **settings).state_dict()
    del saved["param_groups"][0]["control"]["asked"]
    sg.GateSGD(network(), **settings).load_state_dict(saved)


@pytest.mark.parametrize("settings", [{}, {"target": sg.Target(weights=12), "steps": 20}])
def test_a_gradient_scaler_changes_nothing_but_skips(settings):
    plain, scaled = network(), network()
    alone, optimizer = (sg.GatedAdamW(each, **settings) for each in (plain, scaled))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    train(plain, alone, last=8)
    for step in range(8):
        scaler.scale((scaled(INPUTS * (1 + step)) - 1).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert_equal(plain, scaled)
    before = copy.deepcopy(scaled.state_dict())
    (scaler.scale(scaled(INPUTS).sum()) * float("inf")).backward()
    scaler.step(optimizer)
    assert all(each.equal(before[name]) for name, each in scaled.state_dict().items())


def test_torch_s_schedulers_set_the_learning_rates():
    model = network()
    optimizer = sg.GatedAdamW(model, lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    before = copy.deepcopy(model.state_dict())
    train(model, optimizer, last=1)
    scheduler.step()
    assert all(each.equal(before[name]) for name, each in model.state_dict().items())


def test_a_scheduler_leaves_the_gates_of_a_target_alone():
    apart, one = network(), network()
    target = {"target": sg.Target(weights=12), "steps": 20}
    adamw, gates = torch.optim.AdamW(groups(apart, 0.01)), sg.GateSGD(apart, **target)
    both = sg.GatedAdamW(one, **target)
    halved = [torch.optim.lr_scheduler.StepLR(each, 5, 0.5) for each in (adamw, both)]
    for step in range(20):
        train(apart, adamw, gates, first=step, last=step + 1)
        train(one, both, first=step, last=step + 1)
        for scheduler in halved:
            scheduler.step()
    assert both.gate_lr == 1.0
    assert both.param_groups[0]["lr"] < 1e-3
    assert_equal(apart, one)


def test_a_copy_of_model_and_optimiser_goes_on_as_they_do():
    model = network()
    optimizer = sg.GatedAdamW(model, target=sg.Target(weights=12), steps=20)
    train(model, optimizer, last=5)
    other, its = copy.deepcopy((model, optimizer))
    train(model, optimizer, first=5, last=20)
    train(other, its, first=5, last=20)
    assert_equal(model, other)
