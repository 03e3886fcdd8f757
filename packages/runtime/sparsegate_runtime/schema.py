"""Reads JSON files into dataclasses; an error names the file and the field."""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NewType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

Value = TypeVar("Value")
PLAIN = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
if TYPE_CHECKING:
    AnyFloat = float
else:
    AnyFloat = NewType("AnyFloat", float)
    """A number that may also be infinite or NaN; other numbers of JSON are finite."""
LARGEST = 2**63
"""Whole numbers are smaller: torch and numpy cannot hold others."""


class SchemaError(ValueError):
    """A value of a JSON file has the wrong type, is missing, or is unknown."""


def load_json(path: Path, read: Callable[[Any], Value]) -> Value:
    """Reads a JSON file.

    >>> load_json(Path("record.json"), Record.from_json)  # doctest: +SKIP
    Traceback (most recent call last):
    ...
    sparsegate_runtime.schema.SchemaError: record.json: epochs[3].loss: expected a number, got null

    Args:
        path: the file.
        read: turns the value of the file into the result; its errors get the name of the file.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{path}: expected JSON, got something else ({error})") from error
    try:
        return read(value)
    except ValueError as error:
        raise SchemaError(f"{path}: {error}") from error


def parse(kind: Any, value: Any, field: str = "") -> Any:
    """Turns a JSON value into a type: a dataclass, a tuple, a dictionary or a plain value.

    >>> parse(tuple[int, ...], [1, 2])
    (1, 2)
    >>> parse(tuple[int, ...], [1, "2"], "sizes")
    Traceback (most recent call last):
    ...
    sparsegate_runtime.schema.SchemaError: sizes[1]: expected a whole number, got "2"

    Args:
        kind: the type, as in an annotation.
        value: what `json.loads` returned.
        field: the name of the value for errors.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _parse_union(inner, value, field)
    if origin is Literal:
        return value if value in inner else _refuse(field, _words(kind), value)
    if dataclasses.is_dataclass(kind):
        return parse_fields(kind, value, field)
    if origin is tuple:
        return _parse_tuple(inner, value, field)
    if origin in (dict, Mapping):
        # The order of a Mapping counts, and a list of pairs keeps it in every program.
        return _parse_mapping(inner, value, field, pairs=origin is Mapping)
    if kind is AnyFloat:
        return value if type(value) is float else _parse_plain(float, value, field)
    return _parse_plain(kind, value, field)


def parse_fields(
    kind: Any, value: Any, field: str = "", *, kinds: Mapping[str, Any] | None = None
) -> Any:
    """Turns a JSON object into a dataclass.

    Args:
        kind: the dataclass.
        value: the object; a field with a default may be missing.
        field: the name of the object for errors.
        kinds: types of fields that the annotation does not say.
    """
    if not isinstance(value, dict):
        _refuse(field, "an object", value)
    known, required, hints = _fields(kind)
    hints = {**hints, **kinds} if kinds else hints
    for name in value:
        if name not in known:
            raise SchemaError(f"{_inside(field, name)}: unknown field of {kind.__name__}")
    for name in required:
        if name not in value:
            raise SchemaError(f"{_inside(field, name)}: missing")
    # Most fields are plain values that need no parsing; a record has thousands of them.
    plain = {name for name, each in value.items() if type(each) is hints[name] and _is_plain(each)}
    parsed = {
        name: each if name in plain else parse(hints[name], each, _inside(field, name))
        for name, each in value.items()
    }
    try:
        return kind(**parsed)
    except SchemaError:
        raise
    except ValueError as error:
        raise SchemaError(f"{field}: {error}" if field else str(error)) from error


def _parse_union(kinds: tuple[Any, ...], value: Any, field: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    if len(others) == 1:
        return parse(others[0], value, field)
    for kind in others:
        try:
            return parse(kind, value, field)
        except SchemaError:
            continue
    return _refuse(field, " or ".join(_words(kind) for kind in others), value)


def _parse_tuple(kinds: tuple[Any, ...], value: Any, field: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        _refuse(field, "a list", value)
    if kinds[-1] is Ellipsis:
        if kinds[0] in (int, float) and _are_plain_numbers(kinds[0], value):
            return tuple(map(kinds[0], value))
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        _refuse(field, f"a list of {len(kinds)} values", value)
    items = zip(kinds, value, strict=True)
    return tuple(parse(kind, each, f"{field}[{index}]") for index, (kind, each) in enumerate(items))


def _is_plain(value: Any) -> bool:
    """Whether `_parse_plain` would return the value unchanged, given that it has the right type."""
    kind = type(value)
    if kind is int:
        return bool(abs(value) < LARGEST)
    if kind is float:
        return math.isfinite(value)
    return kind is bool or (kind is str and value.isascii())


def _parse_mapping(
    kinds: tuple[Any, ...], value: Any, field: str, *, pairs: bool
) -> dict[Any, Any]:
    """An object, or the list of its pairs if that is allowed."""
    if pairs and isinstance(value, list):
        items = [_parse_tuple(kinds, each, f"{field}[{place}]") for place, each in enumerate(value)]
        return dict(items)  # type: ignore[arg-type]
    if not isinstance(value, dict):
        _refuse(field, "an object", value)
    for name in value:
        _check_unicode(field, name)
    return {name: parse(kinds[1], each, _inside(field, name)) for name, each in value.items()}


def _are_plain_numbers(kind: type, values: Sequence[Any]) -> bool:
    """Whether nothing is wrong with any of many numbers, found faster than one by one."""
    found = set(map(type, values))
    if not found <= {kind, int}:
        return False
    if float in found and not math.isfinite(sum(values)):
        return False
    return int not in found or max(map(abs, values)) < LARGEST


def _parse_plain(kind: Any, value: Any, field: str) -> Any:
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        _refuse(field, _words(kind), value)
    if isinstance(value, int) and abs(value) >= LARGEST:
        _refuse(field, f"{_words(kind)} below 2^63", value)
    if isinstance(value, float) and not math.isfinite(value):
        _refuse(field, "a finite number", value)
    if kind is str and not value.isascii():
        _check_unicode(field, value)
    return float(value) if kind is float else value


def _check_unicode(field: str, value: str) -> None:
    # JSON can hold half a letter, \ud800, which no file or page can.
    try:
        value.encode()
    except UnicodeEncodeError:
        _refuse(field, "a string of whole Unicode letters", value)


def _refuse(field: str, expected: str, value: Any) -> Any:
    got = json.dumps(value, default=repr)
    got = got if len(got) <= 60 else f"{got[:57]}..."
    raise SchemaError(f"{field}: expected {expected}, got {got}".removeprefix(": "))


def _words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    kinds = {tuple: "a list", dict: "an object", Mapping: "an object"}
    return PLAIN.get(kind) or kinds.get(get_origin(kind), str(kind))


def _inside(field: str, name: str) -> str:
    shown = name if name.isprintable() else ascii(name)
    return f"{field}.{shown}" if field else shown


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


@cache
def _fields(kind: Any) -> tuple[frozenset[str], tuple[str, ...], dict[str, Any]]:
    """The names of a dataclass's fields, of those without a default, and their types."""
    fields = dataclasses.fields(kind)
    required = tuple(each.name for each in fields if _is_required(each))
    return frozenset(each.name for each in fields), required, get_type_hints(kind)
