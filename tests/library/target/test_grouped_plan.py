"""A target by name pattern gives every group of layers its own fraction, with any optimizer."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sparsegate as sg

STEPS = 120
KEEP = {"0.*": 0.05, "*": 0.25}


def network():
    torch.manual_seed(0)
    layers = nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4)
    return sg.gate(nn.Sequential(*layers))


def batch(step):
    inputs = torch.randn(64, 20, generator=torch.Generator().manual_seed(step))
    return inputs, (inputs[:, :4]).argmax(1)


def optimizers(model, kind, keep=None):
    target = {"target": sg.Target(keep=keep or KEEP), "steps": STEPS}
    if kind == "apart":
        return [torch.optim.SGD(sg.weights(model), lr=0.1), sg.GateSGD(model, **target)]
    if kind == "adamw":
        return [sg.GatedAdamW(model, lr=0.01, **target)]
    return [sg.GatedSGD(model, lr=0.1, small=kind == "small", **target)]


def train(model, all_of_them, steps=range(STEPS)):
    for step in steps:
        inputs, labels = batch(step)
        F.cross_entropy(model(inputs), labels).backward()
        for each in all_of_them:
            each.step()
            each.zero_grad()
    return model


def kept(model):
    return [int(layer.weight.count_nonzero()) for layer in model if isinstance(layer, nn.Linear)]


@pytest.mark.parametrize("kind", ["apart", "adamw", "together", "small"])
def test_every_group_ends_on_its_own_fraction(kind):
    model = network()
    made = optimizers(model, kind)
    train(model, made)
    first, second, third = kept(sg.finish(model))
    assert first == 64  # 5 % of 1,280
    assert second + third == 272  # 25 % of 1,024 + 64
    found = made[-1].found
    assert (found.kept, found.total) == (336, 2368)
    assert str(found) == "0.*: 64 of 1,280 weights are left; *: 272 of 1,088 weights are left"
    assert found.how_to_repeat == ""


def test_two_groups_are_what_two_optimizers_of_their_layers_are():
    one, other = network(), network()
    train(one, optimizers(one, "apart", {"0.*": 0.05, "2.*": 0.1, "4.*": 0.5}))
    apart = [
        sg.GateSGD(other[index], target=sg.Target(keep=keep), steps=STEPS)
        for index, keep in ((0, 0.05), (2, 0.1), (4, 0.5))
    ]
    train(other, [torch.optim.SGD(sg.weights(other), lr=0.1), *apart])
    for mine, wanted in zip(
        sg.finish(one).parameters(), sg.finish(other).parameters(), strict=True
    ):
        assert torch.equal(mine, wanted)


@pytest.mark.parametrize("kind", ["apart", "adamw", "together", "small"])
@pytest.mark.parametrize("stop", [5, 60, 110])
def test_a_resumed_training_equals_an_uninterrupted_one(kind, stop):
    straight = network()
    train(straight, optimizers(straight, kind))
    model = network()
    made = optimizers(model, kind)
    train(model, made, range(stop))
    saved = copy.deepcopy([each.state_dict() for each in (model, *made)])
    model = network()
    made = optimizers(model, kind)
    for each, state in zip((model, *made), saved, strict=True):
        each.load_state_dict(state)
    train(model, made, range(stop, STEPS))
    for mine, wanted in zip(model.parameters(), straight.parameters(), strict=True):
        assert torch.equal(mine, wanted)


def test_another_fraction_is_refused_when_a_state_is_loaded():
    model = network()
    saved = optimizers(model, "apart")[1].state_dict()
    for keep in ({"*": 0.25}, 0.1):
        with pytest.raises(ValueError, match=r"had another target: keep=.*0\.05"):
            sg.GateSGD(model, target=sg.Target(keep=keep), steps=STEPS).load_state_dict(saved)
    plain = sg.GateSGD(model, target=sg.Target(keep=0.1), steps=STEPS).state_dict()
    with pytest.raises(ValueError, match=r"had another target: keep=0\.1 "):
        optimizers(model, "apart")[1].load_state_dict(plain)


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (
            {"0.*": 0.1},
            r"2\.weight has gates and no target; add a pattern that matches it, or '\*'",
        ),
        ({"*": 0.1, "4.*": 0.2}, r"no gated weight is left for the target of 4\.\*"),
        ({"0.*": 0.1, "x*": 0.2, "*": 0.3}, r"no gated weight is left for the target of x\*"),
        ({"4.*": 0.001, "*": 0.3}, "fewer than one in each of the 1 layers"),
    ],
)
def test_patterns_that_do_not_fit_are_refused(keep, message):
    with pytest.raises(ValueError, match=message):
        optimizers(network(), "apart", keep)


def test_finishing_early_names_the_target():
    model = network()
    train(model, optimizers(model, "apart"), range(10))
    with pytest.warns(sg.UnfinishedTarget, match=r"keep=0\.05 at step 96 of 120 is not reached"):
        sg.finish(model)


def test_a_draw_by_chance_reaches_its_fractions_too():
    torch.manual_seed(0)
    model = sg.gate(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4)), draw=sg.Sample())
    train(model, optimizers(model, "apart"))
    assert kept(sg.finish(model)) == [64, 64]
