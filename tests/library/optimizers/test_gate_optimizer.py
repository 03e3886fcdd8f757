"""What is wrong with prices, gates and steps is said, by every optimiser of gates."""

import warnings

import pytest
import torch
from torch import nn

import sparsegate as sg

INF, NAN = float("inf"), float("nan")
KINDS = [sg.GateSGD, sg.GatedSGD, sg.GatedAdamW]


def network() -> nn.Module:
    return sg.gate(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("price", [INF, NAN, -1.0])
def test_a_price_that_is_no_finite_number_is_refused(kind, price):
    optimizer = kind(network())
    with pytest.raises(ValueError, match="price is a finite factor on the penalty"):
        optimizer.price = price
    assert optimizer.price == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_gates_that_become_nan_are_noticed_after_some_steps(kind):
    model = network()
    optimizer = kind(model)
    sg.gates(model)["1.weight"].gate.data[0, 0] = NAN
    for _ in range(99):
        optimizer.step()
    with pytest.raises(ValueError, match=r"gates of 1\.weight became NaN; check the loss"):
        optimizer.step()


def test_a_census_and_finishing_refuse_gates_that_are_nan():
    model = network()
    sg.gates(model)["0.weight"].gate.data[0, 0] = NAN
    with pytest.raises(ValueError, match=r"gates of 0\.weight became NaN"):
        sg.Census(model).take()
    with pytest.raises(ValueError, match=r"gates of 0\.weight became NaN"):
        sg.finish(model)


def test_a_price_that_closes_no_gate_in_the_steps_given_is_said():
    # 35 gates at 0.9: a price of 2 lowers a gate by 20 * 2 / 35 / (1 - 0.9) * lr = 11 * lr
    message = r"price alone lowers gates by at most 0\.11 in 20 steps, .* 0\.4 above .* by 3\.5 or"
    with pytest.warns(UserWarning, match=message):
        sg.GateSGD(network(), lr=0.01, steps=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.GateSGD(network(), lr=0.04, steps=20)
        sg.GateSGD(network(), lr=0.01)
        sg.GateSGD(network(), lr=0.01, steps=20, penalty=sg.Penalty(count=0.0))


def test_finishing_before_a_target_is_reached_warns_with_the_numbers():
    model = network()
    optimizer = sg.GatedSGD(model, target=sg.Target(weights=7), steps=20)
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    for step in range(20):
        if step == 4:
            copy = network()
            copy.load_state_dict(model.state_dict())
            sg.GatedSGD(copy, target=sg.Target(weights=7), steps=20)
            with pytest.warns(
                sg.UnfinishedTarget,
                match=r"target weights=7 at step 16 of 20 is not reached: \d+ of 35 weights",
            ):
                sg.finish(copy)
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.finish(model)
