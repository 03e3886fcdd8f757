"""A comparison of methods: cells, winners and its file."""

import dataclasses

import pytest

from sparsegate_lab.comparison import ComparedRun, Comparison
from sparsegate_lab.record import Layer, Record
from sparsegate_lab.report import plot_rates, rates_table
from sparsegate_runtime.schema import SchemaError


def record(validation, test, kept=10):
    layer = Layer("fc.weight", (10, 10), 100, kept)
    return Record(
        name="x",
        run={"seed": 0, "model": "lenet5", "data": "mnist", "method": {"name": "dense"}},
        command="",
        machine={},
        versions={},
        layers=(layer,),
        num_biases=0,
        biases_kept=0,
        validation=validation,
        test=test,
        epochs=(),
        seconds=1.0,
    )


ENTRIES = (
    ComparedRun("dense", 1.0, record(99.0, 98.0, 100)),
    ComparedRun("st3", 0.1, record(95.0, 93.0)),
    ComparedRun("st3", 0.1, record(97.0, 95.0)),
    ComparedRun("rigl", 0.1, record(92.0, 96.0)),
    ComparedRun("learned_gates", 0.1, record(95.5, 94.5)),
    ComparedRun("learned_gates", 0.5, record(96.0, 97.0, 50)),
)
COMPARISON = Comparison("digits", "a command", ENTRIES, ("rigl, keep 0.5: no",))


def test_methods_and_rates_leave_the_control_out():
    assert COMPARISON.methods == ["st3", "rigl", "learned_gates"]
    assert COMPARISON.keeps == [0.5, 0.1]


def test_the_best_method_is_chosen_by_validation():
    assert COMPARISON.best(0.1) == "st3"  # a mean of 96; rigl has the best test accuracy
    assert COMPARISON.best(0.1, without="st3") == "learned_gates"
    assert COMPARISON.best(0.3) == ""


def test_the_table_has_means_spreads_winners_and_the_lead_of_gates():
    assert rates_table(COMPARISON) == [
        ("method", "keep 0.5", "keep 0.1"),
        ("dense", "98.00", "98.00"),
        ("st3", "-", "94.00 ± 1.41*"),
        ("rigl", "-", "96.00"),
        ("learned_gates", "97.00*", "94.50"),
        ("learned_gates - best other", "-", "+0.50"),
    ]


def test_there_is_no_lead_without_gates_or_without_others():
    ours = dataclasses.replace(COMPARISON, entries=ENTRIES[4:])
    others = dataclasses.replace(COMPARISON, entries=ENTRIES[:4])
    assert [rates_table(each)[-1][0] for each in (ours, others)] == ["learned_gates", "rigl"]


def test_it_survives_its_file(tmp_path):
    COMPARISON.save(tmp_path / "some.json")
    assert Comparison.load(tmp_path / "some.json") == COMPARISON


def test_the_same_comparison_is_the_same_picture(tmp_path):
    pytest.importorskip("matplotlib")
    one, other = (plot_rates(COMPARISON, tmp_path / f"{name}.json")[0] for name in "ab")
    assert one.read_bytes() == other.read_bytes()
    assert "learned_gates" in one.read_text() or "text" in one.read_text()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "entries: expected a list"),
        ({"entries": [3]}, r"entries\[0\]: expected an object"),
        (
            {"entries": [{"method": 1, "keep": 0.1, "record": ENTRIES[0].record.to_json()}]},
            r"entries\[0\]: expected a method's name and a keep, got 1, 0.1",
        ),
        ({"entries": [{"record": {}}]}, r"entries\[0\].record.format"),
    ],
)
def test_another_file_is_refused(value, message):
    with pytest.raises(SchemaError, match=message):
        Comparison.from_json(value)
