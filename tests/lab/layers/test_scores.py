"""Scores rank the weights of different layers together."""

import pytest
import torch

from sparsegate_lab.layers import SCORES, lamp, magnitudes, ranks


def test_magnitudes_forget_the_sign():
    assert magnitudes(torch.tensor([[-3.0, 0.5]])).tolist() == [[3.0, 0.5]]


def test_ranks_do_not_depend_on_a_layers_scale():
    weight = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    assert torch.equal(ranks(weight), ranks(-100 * weight))
    assert sorted(ranks(weight).flatten().tolist()) == pytest.approx(
        [index / 35 for index in range(35)]
    )


def test_lamp_divides_a_square_by_the_sum_of_all_squares_that_are_no_smaller():
    # squares 9, 4, 1: 1 / (9 + 4 + 1), 4 / (9 + 4), 9 / 9
    assert lamp(torch.tensor([1.0, -2.0, 3.0])).tolist() == pytest.approx([1 / 14, 4 / 13, 1.0])


def test_lamp_does_not_depend_on_a_layers_scale():
    weight = torch.randn(20, generator=torch.Generator().manual_seed(0))
    assert lamp(weight).tolist() == pytest.approx(lamp(weight * 64).tolist(), rel=1e-6)


@pytest.mark.parametrize("name", SCORES)
def test_scores_of_an_empty_or_a_removed_layer_are_finite(name):
    assert SCORES[name](torch.zeros(0)).shape == (0,)
    assert SCORES[name](torch.zeros(2, 3)).isfinite().all()
    assert SCORES[name](torch.zeros(2, 3)).shape == (2, 3)
