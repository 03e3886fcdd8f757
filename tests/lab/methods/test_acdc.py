"""ACDC: cascades from the start, whose diagonals have an optimizer of their own."""

import math

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import Acdc
from sparsegate_lab.methods.acdc import AcdcLayer, Cosine, product
from sparsegate_lab.methods.acdc import matrix as whole
from sparsegate_lab.models import LeNet5
from sparsegate_lab.train import count_biases, count_layers


def test_the_numbers_of_lenet_5_by_hand():
    # 59 300 = 500 + 25 000 + 12 * 3 * 800 + 5 000 weights; the 500 biases of fc1 are gone
    model = Acdc().prepare(LeNet5())
    assert [layer.kept for layer in count_layers(model)] == [500, 25_000, 28_800, 5_000]
    assert count_biases(model)[0] == 80


def test_every_parameter_is_moved_by_one_optimiser(training):
    method = Acdc(depth=2)
    model = method.prepare(LeNet5())
    rest, own = (each.param_groups[0]["params"] for each in method.optimizers(model, training))
    assert {*own, *rest} == set(model.parameters())
    assert len(own) + len(rest) == len(list(model.parameters()))
    assert len(own) == 3


@pytest.mark.parametrize(("progress", "lr"), [(0.0, 0.2), (0.5, 0.1), (1.0, 0.0)])
def test_a_cosine_takes_the_diagonals_learning_rate_to_zero(progress, lr, training):
    method = Acdc(depth=2, diagonal_lr=0.2)
    model = method.prepare(LeNet5())
    rest, own = method.optimizers(model, training)
    method.before_step(model, [rest, own], progress)
    assert own.param_groups[0]["lr"] == pytest.approx(lr)
    assert own.param_groups[0]["weight_decay"] == 0


def test_layers_have_permutations_of_their_own():
    model = Acdc(only=("fc*",), depth=2, width=800).prepare(LeNet5())
    assert isinstance(model.fc2, AcdcLayer)
    assert not torch.equal(model.fc1.orders, model.fc2.orders)


def test_a_width_below_the_layers_is_refused_before_training():
    with pytest.raises(ValueError, match="width is at least 800"):
        Acdc(width=512).prepare(LeNet5())


@pytest.mark.parametrize("changes", [{"depth": 0}, {"diagonal_lr": 0.0}])
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ValueError, match="got 0"):
        Acdc(**changes)


def matrix(size):
    """sqrt(2/n) cos(pi k (2 i + 1) / 2 n), the first row by sqrt(1/n)."""
    k, i = (
        torch.arange(size, dtype=torch.float64)[:, None],
        torch.arange(size, dtype=torch.float64)[None],
    )
    rows = math.sqrt(2 / size) * torch.cos(math.pi * k * (2 * i + 1) / (2 * size))
    rows[0] /= math.sqrt(2)
    return rows.float()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 100, 101])
def test_it_is_the_textbooks_matrix(size):
    x = torch.randn(3, 2, size)
    torch.testing.assert_close(Cosine(size)(x), x @ matrix(size).T, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 100, 101])
def test_the_inverse_undoes_it(size):
    x = torch.randn(3, size)
    torch.testing.assert_close(Cosine(size).inverse(Cosine(size)(x)), x, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(Cosine(size).inverse(x), x @ matrix(size), atol=1e-5, rtol=1e-4)


def test_the_gradient_of_the_transform_is_the_inverse():
    x = torch.randn(2, 10, requires_grad=True)
    above = torch.randn(2, 10)
    Cosine(10)(x).backward(above)
    torch.testing.assert_close(x.grad, Cosine(10).inverse(above), atol=1e-5, rtol=1e-4)


def test_half_precision_comes_out_in_full():
    assert Cosine(8)(torch.randn(2, 8).bfloat16()).dtype == torch.float32
    assert Cosine(8).inverse(torch.randn(2, 8).bfloat16()).dtype == torch.float32


def test_it_stores_nothing():
    assert Cosine(8).state_dict() == {}


@pytest.mark.parametrize("size", [1, 2, 7, 12])
def test_the_matrix_that_a_gpu_multiplies_with_is_the_same(size):
    torch.testing.assert_close(whole(size, torch.device("cpu")), matrix(size))


def test_a_product_has_full_precision_under_autocast_too():
    x, by = torch.randn(3, 8), whole(8, torch.device("cpu"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = product(x.bfloat16(), by)
    torch.testing.assert_close(y, x.bfloat16().float() @ by)


def acdc(inputs, out, **settings):
    torch.manual_seed(0)
    return AcdcLayer(nn.Linear(inputs, out), **settings)


@torch.no_grad()
def test_one_step_is_the_product_of_the_paper():
    layer = acdc(6, 4, depth=1)
    layer.d_bias.normal_()
    c = Cosine(6)(torch.eye(6))  # rows times this are transformed
    x = torch.randn(5, 6)
    wanted = (x @ torch.diag(layer.a[0]) @ c @ torch.diag(layer.d[0]) + layer.d_bias[0]) @ c.T
    torch.testing.assert_close(layer(x), wanted[:, :4], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_between_two_steps_stand_a_rectifier_and_a_permutation():
    layer = acdc(5, 5, depth=2)
    layer.a.fill_(1)
    layer.d.fill_(1)  # both steps do nothing
    x = torch.randn(3, 5)
    torch.testing.assert_close(layer(x), x.relu()[:, layer.orders[1]], atol=1e-5, rtol=1e-4)


def test_the_numbers_of_lenet_5():
    layer = acdc(800, 500, depth=12, width=1536)
    assert layer.num_values == 12 * 3 * 1536
    assert sum(each.numel() for each in layer.state_dict().values()) == layer.num_values
    assert (layer.stands_for, layer.num_indices) == ((500, 800), 0)


def test_more_outputs_than_inputs_widen_it():
    layer = acdc(3, 7, depth=2)
    assert layer.width == 7
    assert layer(torch.zeros(2, 3)).shape == (2, 7)


def test_the_diagonals_start_near_one():
    layer = acdc(1000, 1000, depth=12)
    for diagonals in (layer.a, layer.d):
        assert float(diagonals.detach().mean()) == pytest.approx(1, abs=0.01)
        assert float(diagonals.detach().var()) == pytest.approx(0.061, rel=0.05)


def test_the_same_seed_gives_the_same_permutations():
    assert torch.equal(
        AcdcLayer(nn.Linear(8, 8), seed=3).orders, AcdcLayer(nn.Linear(8, 8), seed=3).orders
    )
    assert not torch.equal(
        AcdcLayer(nn.Linear(8, 8), seed=3).orders, AcdcLayer(nn.Linear(8, 8), seed=4).orders
    )


@pytest.mark.parametrize(
    ("settings", "said"), [({"depth": 0}, "at least 1, got 0"), ({"width": 5}, "at least 6, the")]
)
def test_settings_that_cannot_be_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        acdc(6, 4, **settings)
