"""A table for programs has every number alone in its cell."""

from sparsegate_lab.paper.csv_cells import apart


def test_a_spread_gets_a_column_of_its_own_and_an_empty_cell_where_there_is_none():
    rows = [("layer", "kept", "paper"), ("fc1", "11,916.5 ± 84.0 %", "15.4K"), ("fc2", "-", "600")]
    assert apart(rows) == [
        ("layer", "kept", "kept, spread", "paper"),
        ("fc1", "11916.5", "84.0", "15.4K"),
        ("fc2", "-", "", "600"),
    ]


def test_text_with_digits_stays_as_it_is():
    rows = [
        ("method", "(lambda1, lambda2)"),
        ("conv1_1, conv2", "(0, 1)"),
        ("level (+0.01, with 36,224)", "9.9x"),
    ]
    assert apart(rows) == rows


def test_no_table_stays_none():
    assert apart(()) == []
