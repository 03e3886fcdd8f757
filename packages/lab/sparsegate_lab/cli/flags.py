"""Turns flags into objects with tyro; errors become one line."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import tyro


def parse_flags(kind: Any, words: list[str], *, default: Any = None, name: str, about: str) -> Any:
    """An object of this kind from flags; shows the help and exits if asked to.

    >>> parse_flags(int, ["--help-me"], default=1, name="demo", about="")
    Traceback (most recent call last):
    ...
    ValueError: Unrecognized options: --help-me; see demo --help
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            given = {} if default is None else {"default": default}
            return tyro.cli(kind, args=words, prog=name, description=about or None, **given)
    except SystemExit as end:
        if not end.code:
            raise
        raise ValueError(
            f"{one_line(said.getvalue())}; see {name.partition(' [')[0]} --help"
        ) from None


def one_line(box: str) -> str:
    """The text in a box under its title, and the flag that it suggests."""
    _, *lines = (line.strip("│╭╮╰╯─ ") or "─" for line in box.splitlines())
    sections = [each.split() for each in re.split(r"─|-{4,}", "\n".join(lines)) if each.strip()]
    said = " ".join(sections[0]).removeprefix("Error parsing ").rstrip(".")
    likely = [
        word
        for each in sections[1:]
        if {"meant:", "similar"} & set(each)
        for word in each
        if word.startswith("--")
    ]
    return said + (f"; did you mean {likely[0]}?" if likely else "")
