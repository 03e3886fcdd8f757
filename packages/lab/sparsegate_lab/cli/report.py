"""`sparsegate report`: the page of a run, or of several side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from sparsegate_lab.report import make_comparison, make_page

from .flags import parse_flags


@dataclass(frozen=True)
class Command:
    """Writes the page of a run, or of several runs side by side: one self-contained HTML file."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """The folder of a run; or several folders, files of records, or files of studies."""

    out: Path | None = None
    """The file to write; default: report.html in the run's folder, or comparison.html here."""


def main(argv: list[str]) -> None:
    """Parses the command, writes the page, and says where it is."""
    command: Command = parse_flags(Command, argv, name="sparsegate report", about="")
    if not command.runs:
        raise ValueError(
            "pass the folder of a run, or several; sparsegate train prints it at the end"
        )
    first, *others = command.runs
    if others or first.is_file():
        path = make_comparison(command.runs, command.out or Path("comparison.html"))
    else:
        path = make_page(first, command.out)
    size = path.stat().st_size
    Console(highlight=False, markup=False, soft_wrap=True).print(
        f"{path}: {size:,} bytes; open it in a browser"
    )
