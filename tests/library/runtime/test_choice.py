"""Choices are printed with the times that say why, and come back from a file as they were."""

import json

import pytest

from sparsegate.runtime import Choice, LayerChoice, load_choices, save_choices

MEASURED = Choice(
    batch=16,
    threads=2,
    device="cpu",
    layers=(
        LayerChoice("conv1", 0.66, "dense", 0.5, 1.25),
        LayerChoice("fc1", 0.9931, "chain", 12.34, 0.1),
    ),
    dense_ms=13.0,
    sparse_ms=0.65,
    note="a note",
)
FORCED = Choice(1, 1, "cpu", (LayerChoice("fc1", 0.5, "csr"),))

TABLE = """\
batch 16, 2 threads, cpu
layer  sparsity  torch     ours      chosen
conv1  66.00 %   0.500 ms  1.250 ms  dense
fc1    99.31 %   12.3 ms   0.100 ms  chain
whole network: 13.0 ms dense, 0.650 ms as chosen, 20.00 times as fast
a note"""


def test_the_table_says_what_was_chosen_and_why():
    assert MEASURED.table() == TABLE


def test_the_table_says_where_nothing_was_measured():
    head, _, row, last = FORCED.table().splitlines()
    assert head == "batch 1, 1 thread, cpu"
    assert row.split() == ["fc1", "50.00", "%", "-", "-", "csr"]
    assert last == "not measured: as asked for"


def test_the_kernels_are_those_of_the_layers():
    assert MEASURED.kernels == {"conv1": "dense", "fc1": "chain"}


def test_choices_come_back_from_a_file(tmp_path):
    save_choices((MEASURED, FORCED), tmp_path / "choices.json")
    assert load_choices(tmp_path / "choices.json") == (MEASURED, FORCED)


def test_the_file_is_json(tmp_path):
    save_choices((FORCED,), tmp_path / "choices.json")
    (found,) = json.loads((tmp_path / "choices.json").read_text())
    assert found["layers"][0]["kernel"] == "csr"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "3",
        '"word"',
        "[1]",
        "[{}]",
        '[{"layers": []}]',
        '[{"layers": [{"name": "a"}]}]',
    ],
)
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json: "):
        load_choices(path)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"other\.json: expected JSON"):
        load_choices(path)


DEEP = "[" * 100_000


def test_a_file_that_is_nested_deeply_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(DEEP)
    with pytest.raises(ValueError, match=r"other\.json: expected JSON"):
        load_choices(path)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"batch": "a"}, r"\[0\]\.batch: expected a whole number"),
        ({"dense_ms": "1"}, r"\[0\]\.dense_ms: expected a number"),
        ({"sparse_ms": 0}, "times are above zero"),
        ({"note": 5}, r"\[0\]\.note: expected a string"),
        ({"device": None}, r"\[0\]\.device: expected a string"),
        ({"channels_last": "no"}, r"\[0\]\.channels_last: expected true or false"),
        ({"layers": [{"name": "a", "sparsity": None, "kernel": "csr"}]}, r"layers\[0\]\.sparsity"),
        ({"layers": [{"name": "a", "sparsity": 0.5, "kernel": 3}]}, r"layers\[0\]\.kernel"),
        ({"layers": [{"name": "a", "sparsity": 7.5, "kernel": "csr"}]}, "sparsity is a fraction"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_file_and_field(change, wanted, tmp_path):
    path = tmp_path / "choices.json"
    save_choices((MEASURED,), path)
    (content,) = json.loads(path.read_text())
    path.write_text(json.dumps([{**content, **change}]))
    with pytest.raises(ValueError, match=rf"choices\.json: .*{wanted}"):
        load_choices(path)
