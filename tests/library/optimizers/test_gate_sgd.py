"""GateSGD is SGD with momentum on loss plus price, followed by a clip to [0, 1]."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

from sparsegate.gates import gate, gates, weights
from sparsegate.optimizers import GatedSGD, GateSGD
from sparsegate.price import Penalty
from sparsegate.target import Target

PENALTIES = [
    Penalty(count=0.0),
    Penalty(count=2.0),
    Penalty(count=1.0, bimodal=3.0),
    Penalty(count=2.0, per="layer"),
    Penalty(count=0.5, bimodal=2.0, per="layer"),
]
INPUTS = torch.linspace(-1, 1, 32).reshape(8, 4)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return gate(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)))


def loss(model: nn.Module) -> torch.Tensor:
    return (model(INPUTS) - 1).square().mean()


def state(model: nn.Module) -> list[list[float]]:
    return [each.gate.flatten().tolist() for each in gates(model).values()]


def toy(value: float) -> tuple[nn.Linear, nn.Parameter]:
    """One gate."""
    layer = gate(nn.Linear(1, 1))
    only = gates(layer)["weight"].gate
    only.data.fill_(value)
    return layer, only


def stepped(optimizer: GateSGD, only: nn.Parameter, *grads: float) -> list[float]:
    """The gate after each step with these gradients."""
    values = []
    for grad in grads:
        only.grad = torch.full_like(only, grad)
        optimizer.step()
        values.append(round(only.item(), 6))
    return values


def test_three_steps_by_hand():
    layer, only = toy(0.8)
    optimizer = GateSGD(layer, lr=0.1, momentum=0.5, penalty=Penalty(count=1.0, bimodal=2.0))
    # push 1: 0.2 + 1 + 2 - 4 * 0.8 = 0; speed 0; gate 0.8
    # push 2: 0.7 + 3 - 3.2 = 0.5; speed 0.5; gate 0.75
    # push 3: 0 + 3 - 4 * 0.75 = 0; speed 0.25; gate 0.725
    assert stepped(optimizer, only, 0.2, 0.7, 0.0) == [0.8, 0.75, 0.725]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_it_equals_torch_s_sgd_on_loss_plus_penalty_and_a_clip(penalty, momentum):
    ours, theirs = network(), network()
    ours_sgd = GateSGD(ours, lr=0.3, momentum=momentum, penalty=penalty)
    values = [each.gate for each in gates(theirs).values()]
    theirs_sgd = torch.optim.SGD(values, lr=0.3, momentum=momentum)
    for _ in range(8):
        ours_sgd.zero_grad()
        loss(ours).backward()
        ours_sgd.step()
        theirs_sgd.zero_grad()
        (loss(theirs) + penalty(theirs)).backward()
        theirs_sgd.step()
        for value in values:
            value.data.clamp_(0, 1)
        for mine, his in zip(state(ours), state(theirs), strict=True):
            assert mine == pytest.approx(his, abs=1e-5)
    assert state(ours) != state(network())


@settings(max_examples=examples(50))
@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=6),
    st.floats(0, 100),
    st.floats(0, 100),
)
def test_gates_stay_in_the_unit_interval(grads, lr, count):
    layer, only = toy(0.9)
    values = stepped(
        GateSGD(layer, lr=lr, penalty=Penalty(count=count, bimodal=count)), only, *grads
    )
    assert all(0 <= value <= 1 for value in values)


@pytest.mark.parametrize(
    ("value", "push", "ends"), [(0.9, 5.0, [0.0, 0.4]), (0.1, -5.0, [1.0, 0.6])]
)
def test_a_clipped_gate_can_come_back(value, push, ends):
    layer, only = toy(value)
    optimizer = GateSGD(layer, lr=1.0, momentum=0.0, penalty=Penalty(count=0.0))
    assert stepped(optimizer, only, push, -0.08 * push) == ends


def test_a_closed_gate_of_a_useful_weight_opens_again():
    model = gate(nn.Linear(1, 1, bias=False))
    model.weight, only = torch.tensor([[1.0]]), gates(model)["weight"].gate
    only.data.fill_(0.0)
    optimizer = GateSGD(model, lr=0.1, penalty=Penalty(count=0.01))
    for _ in range(5):
        optimizer.zero_grad()
        (model(torch.ones(1, 1)) - 1).square().sum().backward()
        optimizer.step()
    assert model.weight.item() == 1.0


def test_a_gate_without_a_gradient_still_pays():
    layer, only = toy(0.9)
    GateSGD(layer, lr=0.1, penalty=Penalty(count=1.0)).step()
    assert only.item() == pytest.approx(0.8)


def test_a_gate_that_needs_no_gradient_does_not_move_nor_change_the_others_price():
    model, alone = network(), network()
    first, second = (each.gate for each in gates(model).values())
    first.requires_grad_(False)
    GateSGD(model, lr=0.5, penalty=Penalty(count=2.0)).step()
    assert (first == torch.tensor(0.9)).all()
    GateSGD(alone, lr=0.5, penalty=Penalty(count=2.0)).step()
    assert second.flatten().tolist() == state(alone)[1]
    assert second.max() < 0.9


def test_it_moves_gates_only():
    model = network()
    before = [each.detach().clone() for each in weights(model)]
    loss(model).backward()
    GateSGD(model).step()
    assert all(torch.equal(one, other) for one, other in zip(before, weights(model), strict=True))


def trained(model: nn.Module, optimizer: GateSGD, steps: range) -> list[list[float]]:
    for step in steps:
        optimizer.zero_grad()
        loss(model).backward()
        optimizer.price = step / 10
        optimizer.step()
    return state(model)


def test_training_that_was_stopped_and_resumed_equals_training_in_one_go_bit_for_bit():
    penalty = Penalty(count=0.3, bimodal=0.5)
    whole = network()
    expected = trained(whole, GateSGD(whole, lr=0.2, penalty=penalty), range(8))
    model = network()
    optimizer = GateSGD(model, lr=0.2, penalty=penalty)
    trained(model, optimizer, range(4))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    resumed = network()
    resumed.load_state_dict(saved[0])
    other = GateSGD(resumed, lr=99.0, penalty=penalty)
    other.load_state_dict(saved[1])
    assert other.price == 0.3
    assert trained(resumed, other, range(4, 8)) == expected


@pytest.mark.parametrize("factor", [0.0, 0.5, 3.0])
def test_price_scales_the_penalty_and_not_the_loss(factor):
    layer, only = toy(0.5)
    optimizer = GateSGD(layer, lr=0.01, momentum=0.0, penalty=Penalty(count=4.0, bimodal=8.0))
    assert optimizer.price == 1
    optimizer.price = factor
    # the penalty's slope at one half is 4 + 8 - 2 * 8 * 0.5 = 4
    assert stepped(optimizer, only, 2.0) == [pytest.approx(0.5 - 0.01 * (2 + 4 * factor), abs=1e-6)]


def test_torch_s_schedulers_set_the_learning_rate():
    layer, only = toy(0.9)
    optimizer = GateSGD(layer, lr=0.1, momentum=0.0, penalty=Penalty(count=1.0))
    scheduler = CosineAnnealingLR(optimizer, T_max=2)
    values = []
    for _ in range(3):
        optimizer.step()
        scheduler.step()
        values.append(only.item())
    assert values == pytest.approx([0.8, 0.75, 0.75])  # rates 0.1, 0.05, 0


def test_a_lambda_scheduler_works_too():
    layer, only = toy(0.9)
    optimizer = GateSGD(layer, lr=0.2, momentum=0.0, penalty=Penalty(count=1.0))
    LambdaLR(optimizer, lambda _: 0.5)
    optimizer.step()
    assert only.item() == pytest.approx(0.8)


def test_a_closure_is_called_with_gradients_and_its_loss_returned():
    model, other = network(), network()
    optimizer = GateSGD(model, lr=0.2)

    def closure():
        optimizer.zero_grad()
        found = loss(model)
        found.backward()
        return found

    assert optimizer.step(closure).item() == pytest.approx(loss(other).item())
    assert state(model) == trained_once(other)
    assert GateSGD(model).step() is None


def trained_once(model: nn.Module) -> list[list[float]]:
    loss(model).backward()
    GateSGD(model, lr=0.2).step()
    return state(model)


@pytest.mark.parametrize(("scale", "moves"), [(1.0, True), (float("inf"), False)])
def test_a_gradient_scaler_skips_the_step_if_a_gradient_is_infinite(scale, moves):
    model = network()
    optimizer, scaler = GateSGD(model, lr=0.2), torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = state(model)
    (scaler.scale(loss(model)) * scale).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (state(model) != before) is moves
    if moves:
        assert state(model)[0] == pytest.approx(trained_once(network())[0], abs=1e-6)


@pytest.mark.parametrize("unscales", [False, True])
@pytest.mark.parametrize("skipped", [(), (1, 7, 19)])
def test_a_target_counts_steps_that_a_gradient_scaler_skips(skipped, unscales):
    model, plain = network(), network()
    optimizer, alone = (
        GateSGD(each, target=Target(weights=8), steps=20) for each in (model, plain)
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(20):
        (scaler.scale(loss(model)) * (float("inf") if step in skipped else 1.0)).backward()
        if unscales:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        loss(plain).backward()
        alone.step()
        alone.zero_grad()
    assert optimizer.plan.done == 20
    assert optimizer.found.kept == 8
    assert skipped or optimizer.found == alone.found


def test_the_default_penalty_is_the_package_s():
    assert GateSGD(network()).penalty == Penalty()


@pytest.mark.parametrize(
    "options", [{"lr": -1.0}, {"lr": float("nan")}, {"momentum": 1.0}, {"momentum": -0.1}]
)
def test_options_out_of_range_are_errors(options):
    with pytest.raises(ValueError, match="zero or more and momentum"):
        GateSGD(network(), **options)


def test_a_model_without_gates_is_an_error():
    with pytest.raises(ValueError, match="no gates"):
        GateSGD(nn.Linear(2, 2))


def test_gates_that_another_optimiser_has_taken_over_are_an_error():
    model = network()
    GatedSGD(model)
    with pytest.raises(
        ValueError, match="GatedSGD has taken over these gates, and they get no gradients"
    ):
        GateSGD(model)


@pytest.mark.parametrize(
    "settings", [{"penalty": Penalty(count=5.0)}, {"target": Target(keep=0.5), "steps": 20}]
)
def test_a_copy_of_model_and_optimiser_goes_on_as_they_do(settings):
    model = network()
    optimizer = GateSGD(model, **settings)
    pairs = [(model, optimizer), copy.deepcopy((model, optimizer))]
    for each, moved_by in pairs:
        for _ in range(10):
            loss(each).backward()
            moved_by.step()
            moved_by.zero_grad()
    assert state(pairs[1][0]) == state(model) != state(network())
