"""Flags into objects with tyro, whose boxed errors become one line."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import tyro


def parse_flags(kind: Any, words: list[str], *, default: Any, name: str, about: str) -> Any:
    """An object of this kind from flags; shows the help and exits if asked to.

    >>> parse_flags(int, ["--help-me"], default=1, name="demo", about="")
    Traceback (most recent call last):
    ...
    ValueError: Unrecognized options: --help-me; see demo --help
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, args=words, default=default, prog=name, description=about)
    except SystemExit as end:
        if not end.code:
            raise
        raise ValueError(f"{one_line(said.getvalue())}; see {name.partition(' [')[0]} --help") from None


def one_line(box: str) -> str:
    """What a box says before its first rule, and the flag it suggests."""
    lines = [line.strip("│|╭╮╰╯+ ") for line in box.splitlines()]  # terminals without Unicode get | and -
    sections = re.split(r"\n[─-]{4,}\n", "\n".join(lines[1:-1]))
    said = " ".join(sections[0].split()).removeprefix("Error parsing ").rstrip(".")
    likely = [re.search(r"--\S+", each) for each in sections[1:] if "you meant" in each or "similar" in each]
    hints = [match[0] for match in likely if match]
    return said + (f"; did you mean {' or '.join(hints)}?" if hints else "")
