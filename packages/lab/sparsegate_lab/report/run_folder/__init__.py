"""Writes the pages of runs from their folders; unlike the rest of the report, it needs PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sparsegate_lab.record import Record
from sparsegate_lab.study import Study
from sparsegate_runtime.atomic import write_atomically

from ..comparison_page import comparison_page
from ..run_page import run_page
from .baseline import find_baseline
from .network import view_network

PAGE = "report.html"


def make_page(folder: Path | str, out: Path | None = None) -> Path:
    """Writes the page of one run.

    Args:
        folder: The folder of a run that has ended.
        out: The file to write; report.html in the folder if None.

    Returns:
        The file that was written.

    """
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


def make_comparison(paths: Sequence[Path], out: Path) -> Path:
    """Writes the page of several runs side by side.

    Args:
        paths: Folders of runs, files of records, or files of studies with several seeds.
        out: The file to write.

    Returns:
        The file that was written.

    """
    records = [record for path in paths for record in _records(path)]
    if len(records) < 2:
        raise ValueError(
            f"a comparison needs at least two runs, got {len(records)}; for one, name its folder"
        )
    write_atomically(out, comparison_page(records).encode())
    return out


def _records(path: Path) -> tuple[Record, ...]:
    """The records in the folder of a run, in a record's file or in a study's file."""
    file = path / "record.json" if path.is_dir() else path
    if not file.exists():
        raise ValueError(
            f"{path} is neither the folder of a run that has ended nor a file of a record or study"
        )
    try:
        value = json.loads(file.read_text())
        return Study.load(file).records if "records" in value else (Record.from_json(value),)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is not the record of a run: {error}") from error
