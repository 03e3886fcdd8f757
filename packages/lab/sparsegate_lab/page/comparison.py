"""Makes the page of several runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sparsegate_lab.record import Record
from sparsegate_lab.report import comparison_page
from sparsegate_lab.study import Study
from sparsegate_runtime.atomic import write_atomically


def make_comparison(paths: Sequence[Path], out: Path) -> Path:
    """Writes the page of several runs side by side: folders of runs, records, or studies of several seeds."""
    records = [record for path in paths for record in records_in(path)]
    if len(records) < 2:
        raise ValueError(
            f"two runs at least are compared, got {len(records)}; for one, name its folder"
        )
    write_atomically(out, comparison_page(records).encode())
    return out


def records_in(path: Path) -> tuple[Record, ...]:
    """The records that a folder of a run, a record's file or a study's file has."""
    file = path / "record.json" if path.is_dir() else path
    if not file.exists():
        raise ValueError(
            f"{path} is neither the folder of a run that has ended nor the file of a record or study"
        )
    try:
        value = json.loads(file.read_text())
        return Study.load(file).records if "records" in value else (Record.from_json(value),)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is not the record of a run: {error}") from error
