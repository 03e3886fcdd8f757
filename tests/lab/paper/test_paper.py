"""The paper's numbers fit together, so that a slip of ours in copying would show."""

import pytest

from sparsegate_lab.paper import paper


def value(table, row, column):
    return table.number(row, column).value


@pytest.mark.parametrize(
    "table", [paper.LENET5_LAYERS, paper.ALEXNET_LAYERS, paper.VGG16_LAYERS], ids=lambda t: t.name
)
def test_layers_sum_to_the_total(table):
    for column in ("initial", "final"):
        parts = [row for row in table.rows if row != "total"]
        # Every printed count may be off by its last digit.
        slack = sum(2 * table.number(row, column).rounding for row in table.rows)
        assert sum(value(table, row, column) for row in parts) == pytest.approx(
            value(table, "total", column), abs=slack
        )


@pytest.mark.parametrize(
    "table", [paper.LENET5_LAYERS, paper.ALEXNET_LAYERS, paper.VGG16_LAYERS], ids=lambda t: t.name
)
def test_sparsities_are_those_of_the_counts(table):
    for number in table.numbers():
        if number.column == "sparsity":
            initial, final = table.number(number.row, "initial"), table.number(number.row, "final")
            slack = (
                100 * 2 * (final.rounding / initial.value + initial.rounding / initial.value)
                + 2 * number.rounding
            )
            assert number.value == pytest.approx(
                100 * (1 - final.value / initial.value), abs=slack
            ), number


@pytest.mark.parametrize(
    "table",
    [paper.LENET5_COMPARE, paper.ALEXNET_COMPARE, paper.VGG16_COMPARE],
    ids=lambda t: t.name,
)
def test_rates_are_those_of_the_parameters_and_indices_double_them(table):
    whole = value(table, "Baseline", "parameters")
    for row in table.rows:
        rate, kept, both = (
            table.number(row, column) for column in ("rate", "parameters", "with indices")
        )
        if rate is not None:
            assert whole / kept.value == pytest.approx(rate.value, rel=0.08), row
        if both is not None:
            assert both.value == pytest.approx(2 * kept.value)


def test_no_variance_of_a_bernoulli_draw_is_above_a_quarter():
    assert all(each.value <= 25 for each in paper.LAMBDA.numbers() if each.column == "variance [S]")


def test_every_number_is_listed_once_with_its_place():
    places = [(each.table, each.row, each.column) for each in paper.numbers()]
    assert len(set(places)) == len(places) == 142
    assert all(each.value >= 0 for each in paper.numbers())
