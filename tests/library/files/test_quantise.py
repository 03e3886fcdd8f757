"""Quantising leaves few values, near the old ones, and every zero where it was."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sparsegate.files import quantise_
from sparsegate.files.quantise import clusters
from sparsegate.gates import gate


def a_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 20))
    with torch.no_grad():
        model[0].weight[torch.rand(30, 40) < 0.8] = 0
    return model


@pytest.mark.parametrize("bits", [2, 3, 5, 8])
def test_each_layer_or_the_network_has_at_most_so_many_values(bits):
    by_layer, together = a_model(), a_model()
    quantise_(by_layer, bits=bits, per="layer")
    quantise_(together, bits=bits, per="network")
    for layer in (by_layer[0], by_layer[2]):
        assert len(layer.weight[layer.weight != 0].unique()) <= 2**bits
    values = torch.cat([together[0].weight.flatten(), together[2].weight.flatten()])
    assert len(values[values != 0].unique()) <= 2**bits


def test_zeros_stay_zero_and_kept_weights_stay_kept():
    model = a_model()
    kept = model[0].weight != 0
    quantise_(model, bits=2)
    assert torch.equal(model[0].weight != 0, kept)


def test_more_bits_come_nearer():
    gaps = []
    for bits in (2, 4, 8):
        model = a_model()
        before = model[0].weight.clone()
        quantise_(model, bits=bits)
        gaps.append(float((model[0].weight - before).abs().mean()))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.01 * float(before.abs().max())


def test_values_are_bfloat16s():
    model = a_model()
    quantise_(model, bits=4)
    assert torch.equal(model[0].weight, model[0].weight.bfloat16().float())


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=60), st.sampled_from([4, 8, 16])
)
def test_centres_rise_and_lie_among_the_values(values, count):
    numbers = np.array(values)
    centres = clusters(numbers, count)
    assert len(centres) <= count
    assert (np.diff(centres) > 0).all()
    assert numbers.min() - 1e-9 <= centres[0] <= centres[-1] <= numbers.max() + 1e-9


@pytest.mark.parametrize("options", [{"bits": 1}, {"bits": 9}])
def test_options_out_of_range_are_errors(options):
    with pytest.raises(ValueError, match="from 2 to 8"):
        quantise_(a_model(), **options)


def test_a_model_that_still_has_gates_is_refused_and_left_alone():
    model = gate(nn.Linear(9, 9))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match="still has gates"):
        quantise_(model, bits=2)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_network_that_has_diverged_is_refused(bad):
    model = nn.Linear(9, 9)
    model.weight.data[1, 2] = bad
    with pytest.raises(ValueError, match="the network has diverged"):
        quantise_(model, bits=2)


def test_weights_too_small_for_bfloat16_stay_as_they_are():
    tiny = torch.full((2, 2), 1e-44)
    quantise_([tiny], bits=2)
    assert torch.equal(tiny, torch.full((2, 2), 1e-44))
