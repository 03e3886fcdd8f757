"""Gates start at a constant, or open where the weights are largest."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from sparsegate.gates import Constant, LargestWeights, Start, gate, gates

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
KEEPS = st.floats(0.001, 1.0)


def distinct(shape, *, seed: int = 0) -> torch.Tensor:
    """Weights of both signs, no two of the same magnitude, in random order."""
    size = torch.Size(shape).numel()
    source = torch.Generator().manual_seed(seed)
    magnitudes = 1 + torch.randperm(size, generator=source).float()
    return (magnitudes * (torch.randint(2, (size,), generator=source) * 2 - 1)).reshape(shape)


@given(SHAPES, st.floats(0, 1, width=32))
def test_a_constant_fills_the_weight_s_shape(shape, value):
    start = Constant(value)(torch.randn(shape))
    assert start.shape == shape
    assert (start == value).all()


@given(SHAPES, KEEPS, st.integers(0, 99))
def test_exactly_the_asked_number_of_gates_starts_open(shape, keep, seed):
    weight = distinct(shape, seed=seed)
    start = LargestWeights(keep=keep)(weight)
    assert (start > 0.5).sum() == max(1, round(keep * weight.numel()))


@given(SHAPES, KEEPS, st.integers(0, 99))
def test_every_open_weight_is_larger_than_every_closed_one(shape, keep, seed):
    weight = distinct(shape, seed=seed)
    opens = LargestWeights(keep=keep)(weight) > 0.5
    closed = weight[~opens].abs()
    assert closed.numel() == 0 or weight[opens].abs().min() > closed.max()


@given(SHAPES, KEEPS)
def test_equal_weights_do_not_change_the_number_of_open_gates(shape, keep):
    start = LargestWeights(keep=keep)(torch.ones(shape))
    num_open = int((start > 0.5).sum())
    assert num_open == max(1, round(keep * start.numel()))
    assert (start.flatten()[:num_open] == 1).all()


def test_the_open_gates_start_at_one_and_the_others_at_closed():
    start = LargestWeights(keep=0.25, closed=0.3)(torch.tensor([[1.0, -4.0], [2.0, 3.0]]))
    torch.testing.assert_close(start, torch.tensor([[0.3, 1.0], [0.3, 0.3]]))


def test_the_paper_s_start_for_pretrained_weights_is_49_percent():
    assert LargestWeights(keep=0.5)(torch.tensor([1.0, 2.0]))[0] == pytest.approx(0.49)


@pytest.mark.parametrize("start", [Constant(0.7), LargestWeights(keep=0.3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.half, torch.bfloat16, torch.double])
def test_a_start_is_float32_whatever_the_weight_is(start: Start, dtype):
    assert start(torch.randn(3, 4).to(dtype)).dtype == torch.float32


@given(KEEPS, st.integers(0, 99))
def test_a_channels_last_weight_opens_at_the_same_places(keep, seed):
    weight = distinct((3, 2, 2, 3), seed=seed)
    start = LargestWeights(keep=keep)(weight.to(memory_format=torch.channels_last))
    assert start.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(start, LargestWeights(keep=keep)(weight))


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.1, 95.0, float("nan")])
def test_a_keep_that_is_no_fraction_is_an_error_with_an_example(keep):
    with pytest.raises(ValueError, match=r"keep=0\.05"):
        LargestWeights(keep=keep)


@pytest.mark.parametrize("closed", [-0.1, 0.51, 1.0, float("nan")])
def test_a_closed_that_is_open_is_an_error(closed):
    with pytest.raises(ValueError, match=r"in \[0, 0\.5\]"):
        LargestWeights(closed=closed)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_constant_outside_the_unit_interval_is_an_error(value):
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        Constant(value)


def test_a_gate_may_start_at_exactly_one_half_and_is_then_closed():
    layer = gate(nn.Linear(2, 2), start=LargestWeights(keep=0.25, closed=0.5))
    assert gates(layer)["weight"].mask().sum() == 1


def test_a_pretrained_layer_starts_as_its_magnitude_pruned_self():
    torch.manual_seed(0)
    layer, inputs = nn.Linear(10, 4), torch.randn(3, 10)
    cut = (
        layer.weight.detach().abs().flatten().sort(descending=True).values[8]
    )  # round(0.2 * 40) = 8 weights are larger
    pruned = torch.where(layer.weight.detach().abs() > cut, layer.weight.detach(), 0.0)
    gate(layer, start=LargestWeights(keep=0.2))
    assert torch.equal(layer(inputs), F.linear(inputs, pruned, layer.bias))
