"""The tables show what records count."""

import dataclasses

from sparsegate_lab.record import Layer, Record
from sparsegate_lab.report import layer_table, study_table
from sparsegate_lab.study import Study


def record(*layers):
    return Record("toy", {}, "", {}, {}, layers, 0, 0, 0.0, 0.0, (), 0.0)


def test_a_table_of_two_layers_and_their_total():
    rows = layer_table(
        record(
            Layer("conv1.weight", (20, 1, 5, 5), 500, 50), Layer("fc1.weight", (5, 300), 1500, 150)
        )
    )
    assert rows == [
        ("layer", "shape", "weights", "kept", "sparsity", "rate"),
        ("conv1", "20x1x5x5", "500", "50", "90.00 %", "10.0x"),
        ("fc1", "5x300", "1,500", "150", "90.00 %", "10.0x"),
        ("total", "", "2,000", "200", "90.00 %", "10.0x"),
    ]


def test_a_layer_without_weights_is_called_closed_and_not_infinite():
    closed, total = layer_table(record(Layer("fc1.weight", (2, 2), 4, 0)))[1:]
    assert closed == ("fc1", "2x2", "4", "0", "100.00 %", "closed")
    assert total[-1] == "closed"


def test_thousands_are_grouped():
    row = layer_table(record(Layer("fc1.weight", (800, 500), 400_000, 200)))[1]
    assert row == ("fc1", "800x500", "400,000", "200", "99.95 %", "2,000.0x")


def test_every_row_has_as_many_cells_as_there_are_heads():
    rows = layer_table(record(Layer("a.weight", (1, 1), 1, 1), Layer("b.weight", (1, 1), 1, 0)))
    assert {len(row) for row in rows} == {6}


def test_a_study_of_one_seed_has_no_spread():
    layer = Layer("fc1.weight", (800, 500), 400_000, 2000)
    one = dataclasses.replace(
        record(layer), machine={"gpu": None, "cores": 2}, test=99.3, seconds=90.0
    )
    other = dataclasses.replace(one, test=99.5)
    assert study_table({"toy": Study("toy", "", (one,))})[1:] == [
        ("`toy` (one seed)", "2,000", "200x", "200x", "99.30 %", "1.5", "2 cores")
    ]
    several = study_table({"toy": Study("toy", "", (one, other))})[1]
    assert (several[0], several[4]) == ("`toy` (2 seeds)", "99.40 ± 0.14 %")
