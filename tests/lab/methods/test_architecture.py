"""Architecture learning: narrow layers, which shrink can cut."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate_lab.methods import Architecture
from sparsegate_lab.methods.architecture import (
    GatedRectifier,
    GatedUnits,
    Lowered,
    is_rectified,
    straighten_,
)
from sparsegate_lab.models import LeNet5, LeNet300


def gates(model):
    return [module.gate for module in model.modules() if hasattr(module, "gate")]


def parameters(optimizer):
    return [each for group in optimizer.param_groups for each in group["params"]]


def test_all_layers_but_the_last_have_gates_and_only_they_are_the_methods_own(training):
    method = Architecture()
    model = method.prepare(LeNet5())
    assert [len(gate) for gate in gates(model)] == [20, 50, 500]
    rest, own = (parameters(each) for each in method.optimizers(model, training))
    assert [id(each) for each in own] == [id(gate) for gate in gates(model)]
    assert len(own) + len(rest) == len(list(model.parameters()))


def test_every_unit_costs_the_same():
    method = Architecture(count=2.0, start=1.0, ramp=0.0)
    model = method.prepare(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 7), nn.Linear(7, 1)))
    method.loss_term(model, 0.0).backward()
    assert torch.allclose(torch.cat([gate.grad for gate in gates(model)]), torch.full((10,), 0.2))


def test_a_layer_that_falls_silent_is_said(silent):
    method = Architecture()
    model = method.prepare(nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 2)))
    method.after_epoch(model, silent, 0.5)
    gates(model)[0].data.zero_()
    with pytest.warns(UserWarning, match="all units of 0 are inactive"):
        method.after_epoch(model, silent, 0.5)


def test_a_unit_costs_its_weights_and_those_that_read_it():
    method = Architecture(count=2.0, start=1.0, ramp=0.0, per="weight")
    model = method.prepare(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))
    assert method.loss_term(model, 0.0).item() == pytest.approx(2.0)  # 18 of 18 weights
    deep = Architecture(count=1.0, start=0.5, ramp=0.0, per="weight")
    model = deep.prepare(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(2, 1)))
    assert deep.loss_term(model, 0.0).item() == pytest.approx(0.5 * (18 + 8) / 20)


def test_the_bimodal_price_is_highest_at_one_half_and_pushes_away_from_it():
    method = Architecture(count=0.0, bimodal=4.0, ramp=0.0)
    model = method.prepare(nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 2)))
    gates(model)[0].data = torch.tensor([0.6, 0.4])
    method.loss_term(model, 0.0).backward()
    assert gates(model)[0].grad.tolist() == [
        pytest.approx(-0.4),
        pytest.approx(0.4),
    ]  # 4 (1 - 2g) / 2


def test_the_price_rises_and_the_gates_stop(training):
    method = Architecture(ramp=0.5, freeze=0.8, gate_lr=0.4)
    model = method.prepare(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))
    heights = [method.loss_term(model, progress).item() for progress in (0.0, 0.25, 0.5, 1.0)]
    assert heights == pytest.approx([0.0, heights[2] / 2, heights[2], heights[2]])
    weights, own = method.optimizers(model, training)
    method.before_step(model, [weights, own], 0.8)
    assert own.param_groups[0]["lr"] == 0.0
    assert weights.param_groups[0]["lr"] > 0.0


def test_gates_are_clipped():
    method = Architecture()
    model = method.prepare(nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 2)))
    gates(model)[0].data = torch.tensor([1.5, -0.5])
    method.after_step(model, 0.5)
    assert gates(model)[0].tolist() == [1.0, 0.0]


def test_shrink_cuts_the_silent_units_and_nothing_changes():
    torch.manual_seed(0)
    method = Architecture()
    model = method.prepare(LeNet5())
    with torch.no_grad():
        for gate, width in zip(gates(model), (4, 6, 30), strict=True):
            gate[width:] = 0.2
    images = torch.randn(8, 1, 28, 28)
    wanted = model(images)
    finished = method.finish(model)
    assert torch.allclose(finished(images), wanted, atol=1e-5)
    # 100 = 4 x 25, 600 = 6 x 4 x 25, 2880 = 30 x 6 x 16, 300 = 10 x 30
    kept = [int(layer.weight.count_nonzero()) for layer in finished.children()]
    assert kept == [100, 600, 2880, 300]
    narrow = sg.shrink(finished, images)
    assert sum(parameter.numel() for parameter in narrow.parameters()) == 3880 + 4 + 6 + 30 + 10
    assert torch.allclose(narrow(images), wanted, atol=1e-5)


def test_a_model_with_one_layer_is_refused():
    with pytest.raises(ValueError, match="at least two layers"):
        Architecture().prepare(nn.Sequential(nn.Linear(2, 2)))


@pytest.mark.parametrize(
    "settings",
    [
        {"count": -1.0},
        {"bimodal": -1.0},
        {"depth": -1.0},
        {"start": 1.1},
        {"gate_lr": 0.0},
        {"gate_momentum": 1.0},
        {"freeze": 0.0},
    ],
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        Architecture(**settings)


def test_with_a_price_of_the_depth_rectifiers_have_gates_that_the_price_opens(training):
    method = Architecture(count=0.0, depth=2.0, ramp=0.0, gate_lr=0.1, gate_momentum=0.0)
    model = method.prepare(LeNet300())
    rectifiers = [module for module in model.modules() if isinstance(module, GatedRectifier)]
    assert [each.straight.item() for each in rectifiers] == pytest.approx([0.1, 0.1])
    method.loss_term(model, 0.0).backward()
    assert [each.straight.grad.item() for each in rectifiers] == pytest.approx(
        [-1.0, -1.0]
    )  # a half of the price each
    rest, own = (parameters(each) for each in method.optimizers(model, training))
    assert len(own) == 4
    assert len(own) + len(rest) == len(list(model.parameters()))


@pytest.mark.parametrize("straight", [(False, False), (True, False), (False, True), (True, True)])
def test_a_layer_that_became_linear_is_merged_and_nothing_changes(straight):
    torch.manual_seed(0)
    method = Architecture(depth=1.0)
    model, images = method.prepare(LeNet300()), torch.randn(8, 1, 28, 28)
    for module, is_straight in zip(
        [each for each in model.modules() if isinstance(each, GatedRectifier)],
        straight,
        strict=True,
    ):
        module.straight.data.fill_(float(is_straight))
    wanted = model(images)
    finished = method.finish(copy.deepcopy(model))
    assert [name for name, _ in finished.named_parameters()] == [
        name for name, _ in LeNet300().named_parameters()
    ]
    torch.testing.assert_close(finished(images), wanted, atol=1e-4, rtol=1e-4)
    alive = [int((getattr(finished, name).weight != 0).any(1).sum()) for name in ("fc1", "fc2")]
    # Twice the reader's units where a layer is linear.
    assert alive[1] == (20 if straight[1] else 100)
    assert alive[0] == (2 * alive[1] if straight[0] else 300)


def test_a_model_without_a_layer_that_could_become_linear_is_refused():
    class Narrow(nn.Sequential):
        image_shape = (4,)

    with pytest.raises(ValueError, match="the model has none; set depth to 0"):
        Architecture(depth=1.0).prepare(Narrow(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Linear(3, 4), (5, 3)), (nn.Linear(3, 4), (2, 5, 3)), (nn.Conv2d(2, 4, 3), (5, 2, 6, 6))],
)
def test_silent_units_are_zero_and_the_others_as_they_were(layer, shape):
    gated, features = GatedUnits(layer, start=0.9), torch.randn(*shape)
    assert torch.equal(gated(features), layer(features))
    gated.gate.data = torch.tensor([0.9, 0.5, 0.51, 0.0])
    axis = -1 if isinstance(layer, nn.Linear) else 1
    wanted = layer(features).movedim(axis, 0).clone()
    wanted[[1, 3]] = 0
    assert torch.equal(gated(features).movedim(axis, 0), wanted)
    assert torch.equal(gated.without_gates()(features).movedim(axis, 0), wanted)


def test_a_closed_gate_feels_what_its_unit_would_change():
    gated = GatedUnits(nn.Linear(1, 2, bias=False), start=0.0)
    gated.layer.weight.data = torch.tensor([[2.0], [-3.0]])
    gated(torch.tensor([[1.0], [10.0]])).sum().backward()
    assert gated.gate.grad.tolist() == [22.0, -33.0]
    assert gated.layer.weight.grad.tolist() == [[0.0], [0.0]]


def between(start):
    """Two layers with the model's own rectifier between, the first one's gated."""
    torch.manual_seed(0)
    gated = GatedRectifier(nn.Linear(4, 6), start=start)
    return nn.Sequential(gated, nn.ReLU(), Lowered(nn.Linear(6, 3), of=gated))


@pytest.mark.parametrize(
    ("start", "activation"), [(0.1, F.relu), (0.5, F.relu), (0.9, lambda x: x)]
)
def test_the_rectifier_is_there_or_not_whatever_the_model_does_after_it(start, activation):
    model, x = between(start), 5 * torch.randn(7, 4)
    wanted = model[2].inner(activation(model[0].inner(x)))
    torch.testing.assert_close(model(x), wanted, atol=1e-5, rtol=1e-5)


def test_a_closed_gate_feels_what_going_straight_would_change():
    model = between(0.1)
    model[0].inner.weight.data = torch.eye(6, 4)
    model[0].inner.bias.data.zero_()
    model[2].inner.weight.data.fill_(1.0)
    model(torch.tensor([[2.0, -3.0, -4.0, 0.0]])).sum().backward()
    assert model[0].straight.grad.item() == pytest.approx(3 * (-3.0 - 4.0))  # three outputs


def test_only_the_gate_is_new():
    model = between(0.1)
    assert [name for name, _ in model.named_parameters()] == [
        *("0.straight", "0.inner.weight", "0.inner.bias", "2.inner.weight", "2.inner.bias"),
    ]


@pytest.mark.parametrize(
    "num_read", [2, 6]
)  # two units are doubled; of six, the product with the reader is
def test_straight_layers_compute_the_same_with_the_rectifier_as_without(num_read):
    torch.manual_seed(0)
    layer, reader, x = nn.Linear(5, 12), nn.Linear(12, 3), torch.randn(9, 5)
    reader.weight.data[:, num_read:] = 0
    wanted = reader(layer(x))
    straighten_(layer, reader)
    torch.testing.assert_close(reader(F.relu(layer(x))), wanted, atol=1e-5, rtol=1e-5)
    assert int((layer.weight != 0).any(1).sum()) == 2 * min(num_read, 3)


def test_straight_layers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="takes 6 rectified units, and there are 5"):
        straighten_(nn.Linear(4, 5), nn.Linear(5, 3))


@pytest.mark.parametrize(
    ("activation", "found"),
    [(nn.ReLU(), True), (nn.Tanh(), False), (nn.Identity(), False), (nn.LeakyReLU(), False)],
)
def test_a_rectifier_is_found_by_trying(activation, found):
    model = nn.Sequential(nn.Linear(4, 6), activation, nn.Dropout(0.5), nn.Linear(6, 3))
    assert is_rectified(model, model[0], model[3], torch.zeros(2, 4)) is found
    assert model.training
    assert not model[0]._forward_hooks
    assert not model[3]._forward_pre_hooks
