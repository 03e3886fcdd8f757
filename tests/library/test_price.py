"""The price of gates, by hand, by autograd and by drawing."""

import copy
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sparsegate.gates import Sample, Threshold, finish, gate, gates
from sparsegate.price import Penalty

UNIT = st.floats(0, 1, width=32)
PRICES = st.floats(0, 10)


def model_with(*layers: list[float], draw=None) -> nn.Sequential:
    """One layer for each list, with these gates."""
    model = gate(nn.Sequential(*(nn.Linear(len(values), 1) for values in layers)), draw=draw)
    for each, values in zip(gates(model).values(), layers, strict=True):
        each.gate.data = torch.tensor([values])
    return model


TOY = ([0.5, 1.0, 0.0], [0.2])  # sums: g 1.5 and 0.2; g(1-g) 0.25 and 0.16


@pytest.mark.parametrize(
    ("penalty", "price"),
    [
        (Penalty(count=8.0), 8 * (1.5 + 0.2) / 4),
        (Penalty(count=0.0, bimodal=8.0), 8 * (0.25 + 0.16) / 4),
        (Penalty(count=2.0, bimodal=3.0), (3 * 0.41 + 2 * 1.7) / 4),
        (Penalty(count=8.0, per="layer"), 8 * (1.5 / 3 + 0.2 / 1)),
        (Penalty(count=0.0, bimodal=8.0, per="layer"), 8 * (0.25 / 3 + 0.16 / 1)),
        (Penalty(count=0.0), 0.0),
    ],
)
def test_the_price_is_as_computed_by_hand(penalty, price):
    assert penalty(model_with(*TOY)).item() == pytest.approx(price)


def test_a_fully_open_network_costs_the_count():
    assert Penalty(count=3.0, bimodal=5.0)(model_with([1.0] * 7, [1.0])).item() == pytest.approx(
        3.0
    )


def test_the_bimodal_price_is_four_times_what_undecided_gates_cost():
    assert Penalty(count=0.0, bimodal=5.0)(model_with([0.5] * 7, [0.5])).item() == pytest.approx(
        5.0 / 4
    )


@given(st.lists(st.booleans(), min_size=1, max_size=10), PRICES, PRICES)
def test_for_binary_gates_the_price_is_count_times_the_fraction_kept(opens, count, bimodal):
    price = Penalty(count=count, bimodal=bimodal)(model_with([float(each) for each in opens]))
    assert price.item() == pytest.approx(count * sum(opens) / len(opens), rel=1e-5)


def test_the_terms_are_mean_and_variance_of_the_number_of_weights_drawn():
    layers = ([0.1, 0.5, 0.9, 1.0], [0.3, 0.7])
    model = model_with(*layers, draw=Sample())
    torch.manual_seed(0)
    many = [Sample().mask(each.gate.expand(40_000, -1)).sum(1) for each in gates(model).values()]
    number = torch.stack(many).sum(0).double()
    # With a price of 6 the mean over 6 gates becomes a sum.
    assert number.mean().item() == pytest.approx(Penalty(count=6.0)(model).item(), abs=0.03)
    assert number.var().item() == pytest.approx(
        Penalty(count=0.0, bimodal=6.0)(model).item(), abs=0.03
    )


def every_mask(probabilities: list[float]):
    """Every mask that could be drawn, each with its probability."""
    for bits in itertools.product((0, 1), repeat=len(probabilities)):
        each = [p if bit else 1 - p for bit, p in zip(bits, probabilities, strict=True)]
        yield bits, math.prod(each)


@given(st.lists(UNIT, min_size=1, max_size=6), st.floats(0.1, 10))
def test_the_count_penalty_is_the_expectation_of_the_sampled_count(values, price):
    expected = sum(chance * sum(bits) for bits, chance in every_mask(values))
    paid = Penalty(count=price)(model_with(values)).item() * len(
        values
    )  # the paper's sum, from our mean
    assert paid == pytest.approx(price * expected, rel=1e-4, abs=1e-5)


@given(st.lists(UNIT, min_size=1, max_size=6), st.floats(0.1, 10))
def test_the_bimodal_penalty_is_the_variance_of_the_sampled_count(values, price):
    mean = sum(chance * sum(bits) for bits, chance in every_mask(values))
    variance = sum(chance * (sum(bits) - mean) ** 2 for bits, chance in every_mask(values))
    paid = Penalty(count=0.0, bimodal=price)(model_with(values)).item() * len(values)
    assert paid == pytest.approx(price * variance, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("draw", [Threshold(), Sample()])
def test_for_binary_gates_the_objective_is_the_counting_objective(draw):
    # The paper's second objective, loss + l1 sum g(1-g) + l2 sum g, becomes its first, loss + l2 *
    # number of weights.
    torch.manual_seed(0)
    model = gate(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), draw=draw)
    for each in gates(model).values():
        each.gate.data = torch.bernoulli(torch.full_like(each.gate, 0.4))
    finished = finish(copy.deepcopy(model))
    images, labels = torch.randn(8, 4), torch.randint(0, 2, (8,))
    ours = nn.functional.cross_entropy(model(images), labels) + Penalty(count=18.0, bimodal=7.0)(
        model
    )
    kept = sum(
        int(torch.count_nonzero(finished[place].weight)) for place in (0, 2)
    )  # of 4 * 3 + 3 * 2 = 18
    assert 0 < kept < 18
    counting = nn.functional.cross_entropy(finished(images), labels) + 1.0 * kept
    assert ours.item() == pytest.approx(counting.item(), rel=1e-6)


def test_the_price_does_not_depend_on_the_draw():
    penalty = Penalty(count=2.0, bimodal=1.0)
    assert penalty(model_with(*TOY, draw=Sample())) == penalty(model_with(*TOY, draw=Threshold()))


@pytest.mark.parametrize("per", ["network", "layer"])
@given(st.lists(st.lists(UNIT, min_size=1, max_size=4), min_size=1, max_size=3), PRICES, PRICES)
def test_the_gradient_by_autograd_is_the_slope(per, layers, count, bimodal):
    penalty, model = Penalty(count=count, bimodal=bimodal, per=per), model_with(*layers)
    penalty(model).backward()
    slopes = penalty.slopes([len(values) for values in layers])
    for each, slope in zip(gates(model).values(), slopes, strict=True):
        torch.testing.assert_close(
            each.gate.grad, slope.base + slope.tilt * each.gate.detach(), rtol=1e-4, atol=1e-4
        )


def test_slopes_are_as_computed_by_hand():
    # d/dg [4 g(1-g) + 2 g] = 6 - 8 g
    assert Penalty(count=2.0, bimodal=4.0).slopes([1, 3]) == [(1.5, -2.0), (1.5, -2.0)]
    assert Penalty(count=2.0, bimodal=4.0, per="layer").slopes([1, 4]) == [(6.0, -8.0), (1.5, -2.0)]


def test_tied_weights_pay_once():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    assert Penalty(count=2.0, per="layer")(gate(model)).item() == pytest.approx(2 * 0.9)


def test_the_price_reaches_no_weight():
    model = model_with(*TOY)
    Penalty()(model).backward()
    assert [name for name, each in model.named_parameters() if each.grad is not None] == [
        "0.parametrizations.weight.0.gate",
        "1.parametrizations.weight.0.gate",
    ]


@pytest.mark.parametrize("prices", [{"count": -1.0}, {"bimodal": -0.1}, {"count": float("nan")}])
def test_a_price_below_zero_is_an_error(prices):
    with pytest.raises(ValueError, match="zero or more"):
        Penalty(**prices)


def test_another_per_is_an_error_that_lists_the_choices():
    # Changed after checking of types, which would refuse the word first.
    penalty = Penalty()
    object.__setattr__(penalty, "per", "weight")
    with pytest.raises(ValueError, match="'network' or 'layer', got 'weight'"):
        penalty.__post_init__()


def test_a_model_without_gates_is_an_error():
    with pytest.raises(ValueError, match="no gates"):
        Penalty()(nn.Linear(2, 2))
