"""A record counts what is kept, and survives JSON."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_lab.record import FORMAT, Epoch, Layer, Record

RECORD = Record(
    name="toy-0",
    run={"model": "toy", "data": "toys", "method": {"name": "dense", "only": ["*"]}},
    command="sparsegate train toy",
    machine={"cores": 2, "gpu": None},
    versions={"python": "3.11"},
    layers=(Layer("fc1.weight", (10, 10), 100, 5), Layer("fc2.weight", (2, 10), 20, 1)),
    num_biases=12,
    biases_kept=10,
    validation=97.5,
    test=98.25,
    epochs=(
        Epoch(1, 0.5, 90.0, 120),
        Epoch(2, 0.25, 97.5, 6, undecided=0.1, flipped=0.2, keep=0.05, variance=0.01),
    ),
    seconds=1.5,
    notes=("a note",),
)
GATED = dataclasses.replace(
    RECORD,
    first_gates=(0, 120),
    epochs=tuple(dataclasses.replace(each, gates=(114, 6)) for each in RECORD.epochs),
)


def test_the_counts_of_a_toy_record():
    assert (RECORD.total, RECORD.kept) == (120, 6)
    assert RECORD.rate == 120 / 6
    assert RECORD.rate_with_biases == (120 + 12) / (6 + 10)
    assert RECORD.num_with_indices == 12
    assert RECORD.layers[0].sparsity == pytest.approx(95.0)


@pytest.mark.parametrize("record", [RECORD, GATED, dataclasses.replace(RECORD, content="a1")])
def test_a_record_comes_back_from_json_as_it_was(record):
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_run_without_gates_writes_none_as_records_did_before():
    text = json.dumps(RECORD.to_json())
    assert '"gates"' not in text
    assert "first_gates" not in text


def test_a_record_comes_back_from_its_file_as_it_was(tmp_path):
    RECORD.save(tmp_path / "record.json")
    assert Record.load(tmp_path / "record.json") == RECORD


def test_the_file_shows_the_derived_counts_beside_the_measured_ones(tmp_path):
    RECORD.save(tmp_path / "record.json")
    derived = json.loads((tmp_path / "record.json").read_text())["derived"]
    expected = {
        "total": 120,
        "kept": 6,
        "rate": 20.0,
        "rate_with_biases": 8.25,
        "num_with_indices": 12,
    }
    assert derived == expected


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 1)), min_size=1, max_size=5))
def test_kept_is_never_more_than_total_and_the_rate_at_least_one(sizes):
    layers = tuple(
        Layer(str(place), (size,), size, int(size * part))
        for place, (size, part) in enumerate(sizes)
    )
    record = dataclasses.replace(RECORD, layers=layers)
    assert record.kept <= record.total
    assert record.rate >= 1
    assert all(0 <= layer.sparsity <= 100 for layer in layers)


def test_a_network_without_weights_has_a_rate_and_no_division_by_zero():
    record = dataclasses.replace(RECORD, layers=(Layer("fc.weight", (3, 3), 9, 0),), biases_kept=0)
    assert record.rate == 9
    assert record.rate_with_biases == 21


@pytest.mark.parametrize("other", [{}, {"format": FORMAT + 1}])
def test_a_record_of_another_format_is_refused(other):
    with pytest.raises(ValueError, match=f"expected a record of format {FORMAT}"):
        Record.from_json({**RECORD.to_json(), "format": None, **other})


def test_indices_are_one_for_each_value_unless_none_is_missing_or_the_layer_says_so():
    layers = (
        Layer("a", (10, 10), 100, 5),
        Layer("b", (2, 10), 20, 20),
        Layer("c", (4, 4), 16, 6, indices=3),
    )
    record = dataclasses.replace(RECORD, layers=layers)
    assert record.kept == 5 + 20 + 6
    assert record.num_with_indices == record.kept + 5 + 0 + 3
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_layer_that_says_nothing_of_indices_writes_nothing_as_records_did_before():
    value = RECORD.to_json()
    assert all("indices" not in layer for layer in value["layers"])
    assert Record.from_json(value) == RECORD


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda value: None, r"format: expected a record of format 1, got None"),
        (lambda value: [], r"format: expected a record of format 1, got None"),
        (lambda value: value | {"layers": None}, r"layers: expected a list, got null"),
        (lambda value: value | {"layers": [5]}, r"layers\[0\]: expected an object, got 5"),
        (lambda value: value | {"test": None}, r"test: expected a number, got null"),
        (lambda value: value | {"test": True}, r"test: expected a number, got true"),
        (lambda value: value | {"epochs": [{}]}, r"epochs\[0\].epoch: missing"),
        (lambda value: value | {"notes": 5}, r"notes: expected a list, got 5"),
        (
            lambda value: value | {"sizes": [1, "2"]},
            r'sizes\[1\]: expected a whole number, got "2"',
        ),
        (lambda value: value | {"run": None}, r"run: expected an object, got null"),
        (lambda value: value | {"other": 1}, r"other: unknown field of Record"),
        (
            lambda value: value | {"layers": [value["layers"][0] | {"total": 0}]},
            r"layers\[0\]: total is at least 1",
        ),
        (
            lambda value: {name: each for name, each in value.items() if name != "seconds"},
            r"seconds: missing",
        ),
    ],
)
def test_a_damaged_record_is_refused_in_one_line_with_its_file_and_field(change, wanted, tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(change(json.loads(json.dumps(GATED.to_json())))))
    with pytest.raises(ValueError, match=r"record\.json: " + wanted) as refused:
        Record.load(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\xff"])
def test_a_record_that_is_not_json_is_refused_with_its_file(text, tmp_path):
    path = tmp_path / "record.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"record\.json: expected JSON, got something else"):
        Record.load(path)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"data": 5}, r"run\.data: expected a string, got 5"),
        ({"method": None}, r"run\.method: expected an object, got null"),
        ({"method": {"name": None}}, r"run\.method\.name: expected a string, got null"),
        ({"method": {"name": "a", "target": 3}}, r"run\.method\.target: expected an object, got 3"),
        ({"stop": []}, r"run\.stop: expected an object, got \[\]"),
    ],
)
def test_settings_that_a_report_cannot_show_are_refused_by_field(change, wanted):
    with pytest.raises(ValueError, match=wanted):
        Record.from_json({**RECORD.to_json(), "run": {**RECORD.run, **change}})


def test_no_flipped_bit_of_a_record_goes_unnoticed(tmp_path):
    path = tmp_path / "record.json"
    GATED.save(path)
    content = path.read_bytes()
    for index in range(0, len(content), 7):
        for bit in (0, 2):
            changed = bytearray(content)
            changed[index] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(ValueError, match=r"record\.json"):
                Record.load(path)


def test_a_record_that_was_only_formatted_anew_is_read(tmp_path):
    path = tmp_path / "record.json"
    GATED.save(path)
    path.write_text(json.dumps(json.loads(path.read_text())))
    assert Record.load(path) == GATED


def test_a_record_of_an_earlier_version_has_no_checksum_and_is_read(tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(GATED.to_json()))
    assert Record.load(path) == GATED
