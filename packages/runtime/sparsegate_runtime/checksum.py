"""Adds a checksum to JSON objects, and compares it when they are read."""

from __future__ import annotations

import hashlib
import json
from typing import Any

FIELD = "checksum"


def with_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """The object with a checksum of all its fields as the last field.

    >>> with_checksum({"kept": 5})
    {'kept': 5, 'checksum': 'c8d71c7618ba2d3b'}

    Args:
        value: an object of plain values.
    """
    return {**value, FIELD: _checksum(value)}


def without_checksum(value: Any) -> Any:
    """The object without its checksum; raises a `ValueError` if it does not match the fields.

    An object without a checksum is returned as it is, as files of earlier versions have none.

    Args:
        value: what `json.loads` returned.
    """
    if not isinstance(value, dict) or FIELD not in value:
        return value
    fields = {name: each for name, each in value.items() if name != FIELD}
    if value[FIELD] != _checksum(fields):
        raise ValueError(
            "the content does not match its checksum: the file was damaged or edited; restore it, "
            f"or delete the field {FIELD!r} if you edited it"
        )
    return fields


def _checksum(value: dict[str, Any]) -> str:
    # Of the values, not of the text: a formatter may change the text.
    text = json.dumps(value, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
