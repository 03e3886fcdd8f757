"""JSON becomes dataclasses; what does not fit is named by file and field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest

from sparsegate_runtime.schema import SchemaError, load_json, parse


@dataclass(frozen=True)
class Part:
    size: int
    name: str | None = None


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    kind: Literal["a", "b"] = "a"
    rate: float = 0.0
    pairs: tuple[tuple[str, float], ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    flag: bool = False
    share: float | Mapping[str, float] | None = None
    many: tuple[float, ...] = ()

    def __post_init__(self):
        if self.rate < 0:
            raise ValueError(f"rate is at least 0, got {self.rate}")


def test_nested_dataclasses_tuples_and_defaults_are_read():
    value = {"parts": [{"size": 1}, {"size": 2, "name": "b"}], "rate": 1, "pairs": [["x", 2]]}
    whole = parse(Whole, value)
    assert whole == Whole((Part(1), Part(2, "b")), rate=1.0, pairs=(("x", 2.0),))
    assert isinstance(whole.rate, float)


@pytest.mark.parametrize("share", [{"b": 1.0, "a": 0.5}, [["b", 1], ["a", 0.5]], 0.5, None])
def test_a_mapping_is_an_object_or_the_list_of_its_pairs(share):
    read = parse(Whole, {"parts": [], "share": share}).share
    assert read == ({"b": 1.0, "a": 0.5} if isinstance(share, list | dict) else share)
    assert list(read) == ["b", "a"] if isinstance(share, list | dict) else True


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"parts": [], "share": {"a": "x"}}, "share: expected a number or an object, got"),
        ({"parts": [], "share": [["a"]]}, "share: expected a number or an object, got"),
        ({"parts": [], "counts": []}, r"counts: expected an object, got \[\]"),
        (None, "expected an object, got null"),
        ({}, "parts: missing"),
        ({"parts": [{"size": 1.5}]}, r"parts\[0\].size: expected a whole number, got 1.5"),
        ({"parts": [{"size": True}]}, r"parts\[0\].size: expected a whole number, got true"),
        ({"parts": [{"size": 1, "name": 2}]}, r"parts\[0\].name: expected a string, got 2"),
        ({"parts": [], "kind": "c"}, 'kind: expected one of a, b, got "c"'),
        ({"parts": [], "kind": []}, r"kind: expected one of a, b, got \[\]"),
        ({"parts": [], "pairs": [["x"]]}, r"pairs\[0\]: expected a list of 2 values"),
        ({"parts": [], "counts": {"x": "1"}}, 'counts.x: expected a whole number, got "1"'),
        ({"parts": [], "flag": 1}, "flag: expected true or false, got 1"),
        ({"parts": [], "extra": 1}, "extra: unknown field of Whole"),
        ({"parts": [], "rate": -1}, "rate is at least 0, got -1"),
        ({"parts": [{"size": 2**63}]}, r"parts\[0\].size: expected a whole number below 2\^63"),
        ({"parts": [], "rate": 10**400}, r"rate: expected a number below 2\^63"),
        ({"parts": [], "rate": float("nan")}, "rate: expected a finite number, got NaN"),
        ({"parts": [], "share": float("inf")}, "share: expected a number or an object, got Inf"),
        (
            {"parts": [], "many": [0.5, -float("inf")]},
            r"many\[1\]: expected a finite number, got -I",
        ),
        (
            {"parts": [{"size": 1, "name": "\ud800"}]},
            r"parts\[0\].name: expected a string of whole",
        ),
        ({"parts": [], "counts": {"\ud800": 1}}, "counts: expected a string of whole Unicode"),
        ({"parts": [], "a\nb": 1}, r"'a\\nb': unknown field of Whole"),
    ],
)
def test_what_does_not_fit_is_named_by_its_field(value, wanted):
    with pytest.raises(SchemaError, match=f"^{wanted}"):
        parse(Whole, value)


def test_an_error_names_the_file(tmp_path):
    path = tmp_path / "whole.json"
    path.write_text("{}")
    with pytest.raises(SchemaError, match=r"whole\.json: parts: missing"):
        load_json(path, lambda value: parse(Whole, value))
