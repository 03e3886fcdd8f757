"""A mapping of names whose error for an unknown name lists the known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """A read-only mapping whose error for an unknown name lists the known ones.

    >>> Registry("fruit", {"apple": 1})["aple"]
    Traceback (most recent call last):
    ...
    ValueError: unknown fruit 'aple'; did you mean 'apple'? known: apple
    """

    def __init__(self, kind: str, entries: Mapping[str, Entry]) -> None:
        self._kind = kind
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise ValueError(self._unknown(name))
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._entries, n=1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        return f"unknown {self._kind} {name!r};{hint} known: {', '.join(self._entries)}"
