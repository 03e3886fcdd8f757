"""What is wrong with prices, gates and steps is said, by every optimizer of gates."""

import warnings

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.gates import Graded

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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per", ["network", "layer"])
def test_the_learning_rate_of_the_gates_follows_from_the_steps(kind, per):
    model = network()
    optimizer = kind(model, steps=50, penalty=sg.Penalty(count=2.0, bimodal=1.0, per=per))
    for _ in range(50):
        optimizer.step()
    assert sum(sg.Census(model).take().kept.values()) == 0
    assert optimizer.gate_lr == pytest.approx(
        2.0 * 0.1 / (2.0 * {"network": 1, "layer": 2}[per] / 35 * 50)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_without_steps_or_with_a_target_the_learning_rate_is_one(kind):
    assert kind(network()).gate_lr == 1.0
    assert kind(network(), steps=50, penalty=sg.Penalty(count=0.0, bimodal=1.0)).gate_lr == 1.0
    assert kind(network(), steps=50, target=sg.Target(keep=0.5)).gate_lr == 1.0


def test_finishing_a_training_that_removed_nothing_is_said():
    model = network()
    optimizer = sg.GateSGD(model, lr=0.001)
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        model(inputs).square().mean().backward()
        optimizer.step()
    with pytest.warns(
        sg.NothingRemoved, match="closed only 0 of 35: the model is as good as dense"
    ):
        sg.finish(model)


def test_half_a_percent_of_closed_gates_counts_as_nothing():
    model = sg.gate(nn.Linear(20, 20))
    values = next(iter(sg.gates(model).values())).gate.data
    values[0, 0] = 0.9  # moved, so that this is a trained model
    values[1, :2] = 0.1
    with pytest.warns(sg.NothingRemoved, match="closed only 2 of 400"):
        sg.finish(model)


def test_finishing_a_model_that_was_not_trained_or_has_lost_weights_is_silent():
    closed = network()
    sg.gates(closed)["0.weight"].gate.data[0, 0] = 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.finish(network())
        sg.finish(closed)
        sg.finish(sg.gate(nn.Linear(4, 5), start=Graded()))  # gates that differ from the start


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_training_that_lost_the_plan_fails_at_its_first_step(kind):
    target = {"target": sg.Target(weights=7), "steps": 20}
    model = network()
    optimizer = kind(model, **target)
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    for _ in range(10):
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    resumed = network()
    resumed.load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match=r"gates are those of a checkpoint, .* begins at step 0"):
        kind(resumed, **target).step()
    again = kind(resumed, **target)
    again.load_state_dict(optimizer.state_dict())
    again.step()  # with the plan it goes on
    kind(model, **target).step()  # a second target in the same process is meant
    fresh = network()
    fresh.load_state_dict(network().state_dict())
    kind(fresh, **target).step()  # gates that nothing has moved


def test_what_happens_is_logged(caplog):
    with caplog.at_level("INFO", logger="sparsegate"):
        model = network()
        sg.GateSGD(model, steps=50)
        sg.finish(model)
    assert caplog.messages == [
        "2 weights have 35 gates, 0 start closed",
        "the gates' learning rate is 0.07 for 50 steps",
        "finished with 35 of 35 gated weights",
    ]
