"""The two files of a network in C, which are written together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sparsegate_runtime.atomic import write_atomically

WRITTEN_BY = "Written by sparsegate"  # in the first line of a header


@dataclass(frozen=True)
class CFiles:
    """A C file and its header."""

    source: Path
    header: Path

    @classmethod
    def at(cls, path: str | Path) -> CFiles:
        """The files for a path that ends in .c; raises ValueError if one cannot be written."""
        path = Path(path)
        if path.suffix != ".c":
            raise ValueError(
                f"expected a path that ends in .c, got {path.name!r}; "
                f"write '{path.stem or 'network'}.c'"
            )
        header = path.with_suffix(".h")
        _check_header(header)
        return cls(path, header)

    def write(self, source: str, header: str) -> int:
        """Writes both; returns their size in bytes."""
        contents = {self.source: source.encode(), self.header: header.encode()}
        for file, content in contents.items():
            write_atomically(file, content)
        return sum(map(len, contents.values()))


def _check_header(header: Path) -> None:
    if re.search(r'["\\\x00-\x1f]', header.name):  # would end the file name in #include "..."
        raise ValueError(
            f"expected a file name without quotes, backslashes and control characters, "
            f"got {header.stem!r}; choose another name"
        )
    if header.is_file() and WRITTEN_BY not in header.read_text(errors="replace")[:200]:
        raise ValueError(
            f"the header would be {header}, which exists and was not written by sparsegate; "
            "choose another name for the C file, or move the header"
        )
