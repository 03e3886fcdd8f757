"""Numbers as the paper prints them."""

import pytest

from sparsegate_lab.paper.printed import Printed, PrintedTable


@pytest.mark.parametrize(
    ("text", "value", "rounding"),
    [
        ("15.4K", 15_400, 50),
        ("36K", 36_000, 500),
        ("9.85M", 9_850_000, 5_000),
        ("10.5x", 10.5, 0.05),
        ("99.20", 99.2, 0.005),
    ],
)
def test_a_printed_number_has_a_value_and_the_half_of_its_last_digit(text, value, rounding):
    number = Printed("Table 1", "row", "column", text)
    assert number.value == pytest.approx(value)
    assert number.rounding == pytest.approx(rounding)


def test_what_is_no_number_is_an_error_that_says_where_it_stands():
    with pytest.raises(ValueError, match="Table 1, row, column: 'about 5'"):
        _ = Printed("Table 1", "row", "column", "about 5").value


TABLE = PrintedTable("Table 9", "toy", ("a", "b"), {"one": ("1K", ""), "two": ("2", "3x")})


def test_an_empty_cell_is_no_number():
    assert TABLE.number("one", "b") is None
    assert [(each.row, each.column, each.value) for each in TABLE.numbers()] == [
        ("one", "a", 1000.0),
        ("two", "a", 2.0),
        ("two", "b", 3.0),
    ]


def test_an_unknown_cell_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match="Table 9 has no 'three', 'a'; it has"):
        TABLE.number("three", "a")


def test_a_row_with_too_few_cells_is_an_error():
    with pytest.raises(ValueError, match="Table 9, one: wanted 2 cells, got 1"):
        PrintedTable("Table 9", "toy", ("a", "b"), {"one": ("1",)})
