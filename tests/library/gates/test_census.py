"""A census counts gates, and warns once of each layer that has closed."""

import subprocess
import sys
import warnings
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sparsegate.gates import Census, ClosedLayer, Sample, Threshold, gate, gates

FIRST, SECOND = [0.0, 0.5, 0.6, 1.0], [0.95, 0.3]  # 2 of 4 and 1 of 2 are open


def toy(draw=None) -> nn.Sequential:
    model = gate(nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 2)), draw=draw)
    put(model, "0.weight", [FIRST])
    put(model, "1.weight", [[value] for value in SECOND])
    return model


def put(model: nn.Module, name: str, values: list) -> None:
    gates(model)[name].gate.data.copy_(torch.tensor(values))


def test_open_gates_are_counted_by_weight():
    reading = Census(toy()).take()
    assert reading.kept == {"0.weight": 2, "1.weight": 1}
    assert reading.total == {"0.weight": 4, "1.weight": 2}


def test_under_threshold_keep_is_the_fraction_that_is_open_and_nothing_varies():
    reading = Census(toy(Threshold())).take()
    assert (reading.keep, reading.variance) == (pytest.approx(3 / 6), 0)


def test_under_sample_keep_is_the_mean_gate_and_the_variance_that_of_a_draw():
    reading = Census(toy(Sample())).take()
    values = FIRST + SECOND
    assert reading.keep == pytest.approx(sum(values) / 6)
    assert reading.variance == pytest.approx(sum(value * (1 - value) for value in values) / 6)


def test_undecided_gates_lie_between_a_tenth_and_nine_tenths():
    assert Census(toy()).take().undecided == pytest.approx(3 / 6)  # 0.5, 0.6 and 0.3


def test_the_histogram_has_every_gate_once_and_an_edge_belongs_to_the_part_below():
    counts = Census(toy()).take().histogram
    places = [
        0,
        15,
        19,
        31,
        30,
        9,
    ]  # of 0.0, 0.5, 0.6, 1.0, 0.95 and 0.3, in parts of a thirty-second
    assert counts == tuple(places.count(place) for place in range(32))


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=40))
def test_the_upper_half_of_the_histogram_is_what_is_open(values):
    model = gate(nn.Linear(len(values), 1))
    put(model, "weight", [values])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClosedLayer)
        reading = Census(model).take()
    assert (sum(reading.histogram[16:]), sum(reading.histogram)) == (
        reading.kept["weight"],
        len(values),
    )


def test_flipped_counts_gates_that_crossed_the_threshold_since_the_last_reading():
    model = toy()
    census = Census(model)
    assert census.take().flipped == 0
    put(model, "0.weight", [[0.9, 0.5, 0.4, 0.7]])  # the first opened, the third closed
    put(model, "1.weight", [[0.6], [0.9]])  # the second opened
    assert census.take().flipped == pytest.approx(3 / 6)
    assert census.take().flipped == 0


@given(
    st.lists(st.lists(st.floats(0, 1, width=32), min_size=6, max_size=6), min_size=2, max_size=4)
)
def test_flipped_is_the_distance_between_successive_masks(moments):
    model = gate(nn.Linear(6, 1))
    census, flipped = Census(model), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClosedLayer)
        for values in moments:
            put(model, "weight", [values])
            flipped.append(census.take().flipped)
    expected = [
        sum((a > 0.5) != (b > 0.5) for a, b in zip(*two, strict=True)) / 6
        for two in pairwise(moments)
    ]
    assert flipped == pytest.approx([0, *expected])


def test_a_closed_layer_is_a_warning_that_names_the_layer_and_the_remedies():
    model = toy()
    put(model, "1.weight", [[0.5], [0.0]])
    with pytest.warns(
        ClosedLayer, match=r"every gate of 1\.weight has closed.*Penalty\.count.*Select\(skip="
    ) as caught:
        Census(model).take()
    assert len(caught) == 1


def test_the_warning_points_at_the_line_that_took_the_census():
    # In a process of its own: here, the checks of signatures stand between the caller and the
    # census.
    lines = ["from torch import nn", "from sparsegate.gates import Census, Constant, gate"]
    lines += ["census = Census(gate(nn.Linear(2, 2), start=Constant(0.0)))", "census.take()"]
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60
    )
    assert "<string>:4: ClosedLayer" in ended.stderr


def test_the_alarm_sounds_once_for_each_layer():
    model = toy()
    census = Census(model)
    put(model, "1.weight", [[0.0], [0.0]])
    with pytest.warns(ClosedLayer):
        census.take()
    put(model, "0.weight", [[0.0, 0.0, 0.0, 0.0]])
    with pytest.warns(ClosedLayer) as caught:
        census.take()
    assert ["0.weight" in str(each.message) for each in caught] == [True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        census.take()


def test_an_open_layer_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Census(toy()).take()


def test_a_reading_draws_no_mask_and_leaves_no_gradient():
    model = toy(Sample())
    before = torch.random.get_rng_state()
    Census(model).take()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_tied_weights_are_counted_once():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    assert Census(gate(model)).take().total == {"0.weight": 4}


def test_a_model_without_gates_is_an_error():
    with pytest.raises(ValueError, match="no gates"):
        Census(nn.Linear(2, 2))
