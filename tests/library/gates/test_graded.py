"""Gates start in the order of their weights' shares, and a common price closes the same ones as LAMP."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.gates import Graded


def lamp(weight):
    """The shares as Lee et al. define them."""
    squares, order = weight.flatten().double().square().sort(descending=True)
    return (
        torch.empty_like(squares)
        .scatter_(0, order, squares / squares.cumsum(0))
        .reshape(weight.shape)
    )


def test_every_gate_is_open_and_the_largest_weight_has_the_highest():
    weight = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    start = Graded()(weight)
    assert start.dtype == torch.float32
    assert float(start.min()) > 0.5
    assert start.flatten().argmax() == weight.abs().flatten().argmax()
    assert float(start.max()) == 1.0


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=30, unique=True))
def test_a_gate_falls_by_the_logarithm_of_the_share(sizes):
    weight = (
        torch.tensor(sizes).float() * torch.tensor([1.0, -1.0]).repeat(len(sizes))[: len(sizes)]
    )
    torch.testing.assert_close(
        Graded()(weight), 1 + lamp(weight).log10().float() / 32, atol=1e-5, rtol=0.0
    )


def test_one_threshold_takes_the_same_weights_of_two_layers_as_lamp():
    source = torch.Generator().manual_seed(0)
    layers = [torch.randn(500, 20, generator=source), 0.01 * torch.randn(100, generator=source)]
    gates, shares = (
        torch.cat([of(each).flatten().float() for each in layers]) for of in (Graded(), lamp)
    )
    ours, theirs = (set(each.topk(300).indices.tolist()) for each in (gates, shares))
    assert len(ours & theirs) >= 298


def test_zeros_are_the_lowest_and_a_layer_of_zeros_is_no_error():
    assert Graded()(torch.tensor([0.0, 1.0])).tolist() == pytest.approx([0.51, 1.0])
    assert Graded()(torch.zeros(3)).tolist() == pytest.approx([0.51] * 3)


def test_the_memory_format_is_the_weight_s():
    weight = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    assert Graded()(weight).stride() == weight.stride()
    assert torch.equal(Graded()(weight), Graded()(weight.contiguous()))


def test_a_slope_of_zero_is_refused():
    with pytest.raises(ValueError, match="slope is above zero, got 0"):
        Graded(slope=0.0)


def test_weights_that_are_no_numbers_have_no_order():
    with pytest.raises(ValueError, match="Graded needs finite weights"):
        Graded()(torch.tensor([1.0, float("nan")]))
