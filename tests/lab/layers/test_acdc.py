"""ACDC is A C D C^-1 with rectifiers and permutations between, and stores three vectors a step."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import AcdcLayer, Cosine


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
