"""Damages JSON: one value, name or list in it becomes another."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

NUMBERS = (
    *(0, 1, -1, 7, 31, 32, 255, 2**16, 2**31, 2**32, 2**40, 2**47, 2**48, 2**62, 2**63, 2**64),
    10**30,
)
ODD: tuple[Any, ...] = (
    *NUMBERS,
    *(None, True, False, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "nan", "é", "\ud800"),
    *("gaps", "bitmap", "rows", "dense", "kept", "removed", "F32", "BF16", "U8", "weight"),
    *([], {}, [0], [2**40], [0, 2**63], [1] * 65, [[[]]], {"a": {"b": []}}, [None], "x" * 300),
)
Place = tuple[Any, Any]
"""A container, and the key or index of a value in it."""


def changed_value(draw: Random, value: Any) -> Any:
    """The value with one of the values in it changed, removed, renamed or doubled, in place."""
    holder = {"": value}
    places = list(_places(holder))
    container, key = draw.choice(places)
    how = draw.random()
    if isinstance(container, list):
        _change_item(draw, container, key, how)
    elif how < 0.15 and container is not holder:
        del container[key]
    elif how < 0.25:
        container[draw.choice(("name", "weight", "few:mask", "é", "epochs"))] = container[key]
    elif isinstance(container[key], int) and how < 0.5:
        container[key] += draw.choice((-1, 1, 8, -8))
    elif how < 0.6:
        source, index = draw.choice(places)
        if index in source if isinstance(source, dict) else index < len(source):
            container[key] = json.loads(json.dumps(source[index]))
    else:
        container[key] = copy.deepcopy(draw.choice(ODD))
    return holder[""]


def changed_text(draw: Random, text: str) -> str:
    """JSON text that is no longer that of the value, or no JSON at all."""
    place = draw.randrange(len(text) + 1)
    piece = draw.choice(
        ('"', "{", "[", "]", "}", ",", ":", "\\", "\0", "1e999", "NaN", "-", "null", "[" * 3000)
    )
    if draw.random() < 0.3:
        return text[:place]
    return text[:place] + piece + text[place + draw.randrange(3) :]


def changed_json(draw: Random, text: str) -> bytes:
    """A damaged JSON file."""
    if draw.random() < 0.15:
        return changed_text(draw, text).encode(errors="surrogatepass")
    value = json.loads(text)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        value = changed_value(draw, value)
    return json.dumps(value).encode()


def _change_item(draw: Random, items: list[Any], index: int, how: float) -> None:
    if how < 0.2:
        del items[index]
    elif how < 0.3:
        items.append(items[index])
    elif isinstance(items[index], int) and how < 0.5:
        items[index] += draw.choice((-1, 1, 8, -8))
    else:
        items[index] = copy.deepcopy(draw.choice(ODD))


def _places(container: Any) -> Any:
    """Every value inside, as its container and key."""
    keys = container.keys() if isinstance(container, dict) else range(len(container))
    for key in list(keys):
        yield container, key
        if isinstance(container[key], dict | list):
            yield from _places(container[key])
