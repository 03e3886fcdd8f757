"""Training with a target ends on it, in any loop, and can be stopped and resumed at any step."""

import copy
import math
import warnings
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.gates import (
    ClosedLayer,
    Constant,
    Draw,
    Graded,
    LargestWeights,
    Sample,
    Threshold,
    finish,
    gate,
    gated_weights,
    gates,
    weights,
)
from sparsegate.optimizers import GateSGD
from sparsegate.price import Penalty
from sparsegate.target import Target
from sparsegate.target.goal import falling
from sparsegate.target.view import GatesView

STEPS = 200  # the four phases end at 30, 120, 160 and 200


class Residual(nn.Module):
    """A small residual network with batch normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.inside, self.last = nn.Conv2d(6, 6, 3, padding=1), nn.Linear(6, 3)

    def forward(self, image):
        hidden = F.relu(self.norm(self.first(image)))
        return self.last(F.relu(hidden + self.inside(hidden)).mean((2, 3)))


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 20), nn.ReLU(), nn.Linear(20, 3))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Bars in three directions."""
    source = torch.Generator().manual_seed(1)
    images, labels = torch.randn(60, 1, 6, 6, generator=source) * 0.3, torch.arange(60) % 3
    images[labels == 0, :, 2] += 1
    images[labels == 1, :, :, 3] += 1
    images[labels == 2] += torch.eye(6)
    return images, labels


IMAGES, LABELS = batch()


class Training:
    """A user's own loop."""

    def __init__(
        self,
        target: Target,
        kind=dense,
        draw: Draw | None = None,
        start=0.6,
        scale=1.0,
        optimizer=None,
        **options,
    ):
        torch.manual_seed(0)
        self.model = gate(
            kind(), draw=draw, start=start if not isinstance(start, float) else Constant(start)
        )
        optimizer = optimizer or partial(torch.optim.SGD, lr=0.1 / scale, momentum=0.9)
        self.weights = optimizer(weights(self.model))
        self.scale, self.done, self.target = scale, 0, target
        self.gates = GateSGD(self.model, target=target, steps=STEPS, judge=self.accuracy, **options)

    def accuracy(self) -> float:
        self.model.eval()
        with torch.no_grad():
            found = 100 * float((self.model(IMAGES).argmax(1) == LABELS).float().mean())
        self.model.train()
        return found

    def run(self, until: int = STEPS) -> "Training":
        for step in range(self.done, until):
            torch.manual_seed(step)
            (self.scale * F.cross_entropy(self.model(IMAGES), LABELS)).backward()
            for optimizer in (self.weights, self.gates):
                optimizer.step()
                optimizer.zero_grad()
        self.done = until
        return self

    def kept(self) -> list[int]:
        return [int((each.gate > 0.5).sum()) for each in gates(self.model).values()]

    def saved(self):
        return copy.deepcopy([each.state_dict() for each in (self.model, self.weights, self.gates)])

    def load(
        self, saved, done
    ):  # with new optimizers, made when the model is already loaded, as users do
        self.model.load_state_dict(saved[0])
        self.gates = GateSGD(self.model, target=self.target, steps=STEPS, judge=self.accuracy)
        for each, state in zip((self.model, self.weights, self.gates), saved, strict=True):
            each.load_state_dict(state)
        self.done = done
        return self


@pytest.mark.parametrize(
    ("kind", "draw", "keep", "optimizer"),
    [
        (dense, Threshold(), 0.05, None),
        (dense, Sample(), 0.3, partial(torch.optim.AdamW, lr=0.02)),
        (Residual, Threshold(), 0.3, partial(torch.optim.RMSprop, lr=0.005)),
        (Residual, Sample(), 0.05, None),
    ],
)
def test_the_same_defaults_end_on_the_target_whatever_the_model_the_draw_and_the_optimiser(
    kind, draw, keep, optimizer
):
    training = Training(Target(keep=keep), kind, draw, optimizer=optimizer).run()
    found = training.gates.found
    assert found.ended
    assert found.kept == sum(training.kept()) == round(keep * found.total)
    assert training.accuracy() > 85  # a third by chance
    model = finish(training.model)
    assert (
        sum(int(each.count_nonzero()) for each in model.parameters() if each.ndim > 1) == found.kept
    )


@pytest.mark.parametrize("start", [0.9, LargestWeights(keep=0.3), Graded(), 0.3])
def test_gates_may_start_anywhere(start):
    assert sum(Training(Target(weights=60), start=start).run().kept()) == 60


@pytest.mark.parametrize("step", [50, 70, 100, 130])
def test_gates_that_hardly_move_by_themselves_still_follow_the_schedule(step):
    target = Target(keep=0.1, travel=0.01)
    kept = sum(Training(target, start=Graded()).run(step).kept())
    assert kept == pytest.approx(falling(target, step / STEPS, start=780.0, end=78.0), rel=0.1)


class Uneven(nn.Module):
    """Two layers with the same weights, of which one has a thousand times the other's push."""

    def __init__(self) -> None:
        super().__init__()
        self.loud, self.soft = nn.Linear(36, 3, bias=False), nn.Linear(36, 3, bias=False)
        self.soft.weight = nn.Parameter(self.loud.weight.detach().clone())

    def forward(self, image):
        return self.loud(image.flatten(1)) + 0.001 * self.soft(image.flatten(1))


@pytest.mark.parametrize(("evenly", "apart"), [(0.0, 1000), (1.0, 3)])
def test_gates_move_in_units_of_their_own_layer_s_push_if_asked_to(evenly, apart):
    training = Training(Target(price=0.0, travel=0.1, evenly=evenly), Uneven)
    loud, soft = (each.gate for each in gates(training.model).values())
    training.run(60)
    moved = [float((each.detach() - 0.6).abs().mean()) for each in (loud, soft)]
    assert (moved[0] > apart * moved[1]) != bool(evenly)


def test_a_training_with_uneven_layers_can_be_resumed():
    target = Target(keep=0.2, evenly=1.0)
    whole, first = Training(target, Uneven).run(), Training(target, Uneven).run(50)
    resumed = Training(target, Uneven).load(first.saved(), 50).run()
    assert all(
        torch.equal(one.gate, two.gate)
        for one, two in zip(*(gates(each.model).values() for each in (whole, resumed)), strict=True)
    )


def test_the_open_gates_follow_the_schedule_and_the_mask_stands_still_in_the_end():
    training = Training(Target(weights=78, begin=0.2, reach=0.6, freeze=0.7))
    counts = [sum(training.run(step).kept()) for step in range(STEPS + 1)]
    assert set(counts[:41]) == {780}
    assert counts[80] == pytest.approx(78 + 702 * 0.5**3, rel=0.3)  # halfway: an eighth is left
    assert set(counts[140:]) == {78}
    frozen = [each.gate.clone() for each in gates(training.model).values()]
    assert all(set(each.unique().tolist()) <= {0.0, 1.0} for each in frozen)


def test_weights_that_matter_are_the_ones_that_stay():
    torch.manual_seed(0)
    inputs = torch.randn(400, 30)
    layer = gate(nn.Linear(30, 1, bias=False))
    optimizer, truth = torch.optim.SGD(weights(layer), lr=0.05), torch.zeros(30)
    truth[[3, 11, 12, 29]] = torch.tensor([1.0, -0.6, 2.0, 0.4])
    moving = GateSGD(layer, target=Target(weights=4), steps=STEPS)
    for _ in range(STEPS):
        (layer(inputs)[:, 0] - inputs @ truth).square().mean().backward()
        for each in (optimizer, moving):
            each.step()
            each.zero_grad()
    assert finish(layer).weight[0].nonzero().flatten().tolist() == [3, 11, 12, 29]


def test_the_loss_s_scale_does_not_matter():
    one, other = (Training(Target(weights=60), scale=scale).run() for scale in (1.0, 1024.0))
    assert one.kept() == other.kept()
    assert other.gates.found.price == pytest.approx(1024 * one.gates.found.price, rel=1e-3)


@pytest.mark.parametrize(
    ("target", "draw"),
    [
        (Target(keep=0.1), Sample()),
        (Target(keep=0.1), Threshold()),
        (Target(max_drop=5.0, baseline=100.0), Threshold()),
        (Target(bytes=600), Threshold()),
    ],
)
def test_a_training_resumed_at_any_step_is_one_in_one_go_bit_for_bit(target, draw):
    whole = Training(target, draw=draw)
    states = {step: whole.run(step).saved() for step in (7, 101, 163)}
    expected = whole.run().saved()
    for step, state in states.items():
        found = Training(target, draw=draw).load(state, step).run().saved()
        assert str(found[2]["param_groups"]) == str(expected[2]["param_groups"])
        assert all(torch.equal(found[0][name], expected[0][name]) for name in expected[0])


@pytest.mark.parametrize(("kind", "few"), [(dense, 20), (Residual, 60)])
def test_a_drop_is_kept_to_with_few_weights(kind, few):
    training = Training(Target(max_drop=5.0, baseline=100.0), kind).run()
    assert training.accuracy() >= 95
    assert training.gates.found.kept <= few  # of 780 and 396


def test_a_held_price_leaves_about_what_the_target_that_found_it_left():
    found = Training(Target(keep=0.1, travel=10.0)).run().gates.found
    again, free = (Training(Target(price=price)).run().gates.found for price in (found.price, 0.0))
    assert f"Target(price={found.price:.3g}) repeats it" in str(found)
    assert again.price == pytest.approx(found.price)
    assert found.kept / 3 < again.kept < 3 * found.kept < free.kept


@pytest.mark.parametrize("travel", [None, 10.0])
def test_a_path_that_is_taken_again_leaves_nearly_what_it_left(travel):
    found = Training(Target(keep=0.1, travel=travel)).run().gates.found
    held = Target(path=found.path, travel=found.travel, grade=found.graded)
    again = Training(held).run().gates.found
    assert found.kept == 78
    assert again.kept == pytest.approx(78, rel=0.15)
    assert again.path == pytest.approx(found.path, rel=0.01)


@pytest.mark.parametrize(
    ("target", "travel", "graded"),
    [
        ({"keep": 0.05}, 1.0, True),
        ({"keep": 0.2}, 0.5, True),
        ({"weights": 5}, math.sqrt(0.05 * 780 / 5), True),
        ({"weights": 2, "evenly": 1.0}, math.sqrt(0.05 * 780 / 2), True),
        ({"keep": 0.1, "travel": 3.0}, 3.0, False),
        ({"keep": 0.1, "travel": 3.0, "grade": True}, 3.0, True),
        ({"keep": 0.05, "grade": False}, 1.0, False),
        ({"keep": 0.05, "listen": True}, 0.06, False),
        ({"keep": 0.05, "listen": True, "follow": False}, 1.0, False),
        ({"price": 0.1}, 10.0, False),
        ({"path": (0.1, 0.2)}, 10.0, False),
    ],
)
def test_how_far_gates_travel_follows_from_the_weights_that_are_left(target, travel, graded):
    found = Training(Target(**target)).gates.found
    assert found.travel == pytest.approx(travel)
    assert found.graded == graded


@pytest.mark.parametrize("kind", [Threshold(), Sample()])
def test_gates_are_put_in_the_order_of_their_weights_at_begin(kind):
    model = gate(nn.Linear(40, 20), draw=kind, start=Constant(0.7))
    gates_before = gates(model)["weight"].gate.detach().clone()
    optimizer = GateSGD(model, target=Target(keep=0.1, begin=0.002), steps=1000)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(3, 40)).square().sum().backward()
        assert torch.equal(gates(model)["weight"].gate, gates_before)
        optimizer.step()
    weight = model.parametrizations.weight.original.detach()
    values = gates(model)["weight"].gate.detach().flatten()
    pairs = torch.stack([values, weight.abs().log().flatten()])
    assert (torch.corrcoef(pairs)[0, 1] > 0.9) == (kind == Threshold())


def test_gates_with_a_start_of_their_own_keep_it():
    model = gate(nn.Linear(40, 20), start=LargestWeights(keep=0.2))
    before = gates(model)["weight"].gate.detach().clone()
    memory = [{}]
    view = GatesView(model, None)
    for first in (True, False):
        view.put_(view.by_size(memory, first=first), memory)
    assert torch.equal(gates(model)["weight"].gate, before)
    assert memory == [{}]


def test_gates_follow_the_sizes_of_their_weights_from_begin_to_freeze():
    target = Target(keep=0.5, begin=0.1, reach=0.2, freeze=0.8)
    model = gate(nn.Linear(4, 1, bias=False))
    weight, found = gated_weights(model)[0], gates(model)["weight"]
    optimizer = GateSGD(model, target=target, steps=100)
    for step in range(100):
        weight.data = torch.tensor([[4.0, 3.0, 2.0, 1.0] if step < 50 else [1.0, 2.0, 3.0, 4.0]])
        optimizer.zero_grad()
        ((-1) ** step * model(torch.ones(1, 4)).sum()).backward()
        optimizer.step()
        if step == 49:
            assert found.mask().tolist() == [[True, True, False, False]]
            assert list(optimizer.state[found.gate]) == ["momentum_buffer", "order"]
    assert found.mask().tolist() == [[False, False, True, True]]
    assert list(optimizer.state[found.gate]) == ["momentum_buffer"]


def test_a_layer_that_would_be_cut_off_keeps_a_weight_and_is_named():
    training = Training(Target(weights=5))
    training.run(159)  # the cut is at the end of the next step
    gates(training.model)["3.weight"].gate.data.fill_(0.0)
    with pytest.warns(ClosedLayer, match=r"every gate of 3\.weight had closed; one weight"):
        training.run()
    assert training.kept() == [4, 1]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            Target(keep=0.001),
            "leaves 1, fewer than one in each of the 2 layers; the least is weights=2",
        ),
        (Target(weights=1), "the least is weights=2, which is keep=0.0026"),
        (
            Target(weights=781),
            "of 780 gated weights are more than there are; the most is weights=780",
        ),
        (Target(bytes=20), "of other weights, biases and head; ask for at least bytes="),
        (Target(max_drop=1.0), "max_drop needs baseline="),
    ],
)
def test_what_cannot_be_is_said_at_once_with_the_nearest_that_can(target, message):
    with pytest.raises(ValueError, match=message):
        Training(target)


def test_what_a_target_needs_and_does_not_need():
    model, target = gate(dense()), Target(keep=0.5)
    with pytest.raises(ValueError, match="leave penalty out"):
        GateSGD(model, target=target, penalty=Penalty(), steps=5)
    with pytest.raises(ValueError, match="needs steps="):
        GateSGD(model, target=target)
    with pytest.raises(ValueError, match="number of steps of the whole training, got 0"):
        GateSGD(model, target=target, steps=0)
    with pytest.raises(ValueError, match="pass target= to the optimizer"):
        _ = GateSGD(model).found
    silent = GateSGD(model, target=target, steps=2, momentum=0.0)
    silent.step()
    with pytest.raises(ValueError, match="gradients reach the gates"):
        silent.step()
    with pytest.raises(ValueError, match="needs judge="):
        GateSGD(model, target=Target(max_drop=1.0, baseline=99.0), steps=1).step()
    gates(model)["1.weight"].gate.requires_grad_(False)
    with pytest.raises(ValueError, match="a target moves all gates"):
        GateSGD(model, target=target, steps=5)


def test_the_state_of_an_optimiser_without_a_target_is_refused_by_one_with_a_target():
    plain = GateSGD(gate(dense())).state_dict()
    with pytest.raises(ValueError, match="this one has a target and the saved optimizer has none"):
        Training(Target(keep=0.5)).gates.load_state_dict(plain)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_the_shortest_training_ends_on_its_target_too(steps):
    torch.manual_seed(0)
    model = gate(dense())
    moving = GateSGD(model, target=Target(weights=10), steps=steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClosedLayer)
        for _ in range(steps):
            F.cross_entropy(model(IMAGES), LABELS).backward()
            moving.step()
    assert moving.found.kept == 10
