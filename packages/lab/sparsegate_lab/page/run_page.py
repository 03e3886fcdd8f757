"""Makes the page of a run."""

from __future__ import annotations

from pathlib import Path

from sparsegate_lab.record import Record
from sparsegate_lab.report import run_page
from sparsegate_runtime.atomic import write_atomically

from .baseline import find_baseline
from .network import view_network

PAGE = "report.html"


def make_page(folder: Path | str, out: Path | None = None) -> Path:
    """Writes the page of the run in a folder, there or to a path, and says where."""
    folder = Path(folder)
    path = folder / "record.json"
    if not path.exists():
        raise ValueError(
            f"{folder} is not the folder of a run that has ended: it has no record.json"
        )
    record = Record.load(path)
    text = run_page(record, view_network(folder, record), find_baseline(folder, record))
    target = out or folder / PAGE
    write_atomically(target, text.encode())
    return target
