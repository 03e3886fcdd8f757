"""Collects remarks on a run, such as warnings, for its record and its watcher."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .watch import Watcher


class Notes:
    """The remarks on a run, each once."""

    def __init__(self, watch: Watcher, texts: Iterable[str] = ()) -> None:
        self.watch = watch
        self.texts = list(texts)
        self._shown: dict[str | tuple[str, type[Warning], int], int] = {}

    def add(self, text: str) -> None:
        """Adds a remark and shows it, unless it is there already."""
        if text not in self.texts:
            self.texts.append(text)
            self.watch.noted(text)

    @contextmanager
    def collect(self, *kinds: type[Warning]) -> Iterator[None]:
        """Turns the warnings of a block into remarks.

        Args:
            kinds: the warnings to collect, all unless given; others are shown as usual.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for warning in caught:
            if kinds and not issubclass(warning.category, kinds):
                warnings.warn_explicit(
                    warning.message,
                    warning.category,
                    warning.filename,
                    warning.lineno,
                    registry=self._shown,
                )
            else:
                self.add(str(warning.message))
