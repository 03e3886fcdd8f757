"""Finds the records that already exist for a run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sparsegate_lab.record import Record
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run, RunFolder

from .exhibit import Exhibit


class Archive:
    """The records under two folders: committed results, and runs made here.

    A record counts for a run only if all settings are equal. One that was made before the recipe
    changed is not used.
    """

    def __init__(self, *, results: Path | None = None, runs: Path | None = None) -> None:
        self._results, self._runs = results, runs
        self._committed = (
            {_run_name(record): record for record in _all_records(results)} if results else {}
        )

    def record(self, run: Run[Any]) -> Record | None:
        """Returns the record of a run, if there is one."""
        if run.name in self._committed:
            return self._committed[run.name]
        return RunFolder(self._runs / run.name, run).record() if self._runs else None

    def records(self) -> Iterator[Record]:
        """Yields every record; those made here come first."""
        for path in sorted(self._runs.glob("*/record.json")) if self._runs else ():
            yield Record.load(path)
        yield from self._committed.values()

    def missing(self, exhibit: Exhibit, seeds: Iterable[int]) -> list[Run[Any]]:
        """Returns the runs of an exhibit that have no record yet."""
        return [
            run
            for each in planned(exhibit, seeds).values()
            for run in each
            if self.record(run) is None
        ]

    def studies(self, exhibit: Exhibit, seeds: Iterable[int]) -> dict[str, Study]:
        """Returns an exhibit's studies: complete planned ones, and those it reads by name."""
        found = self._by_name(exhibit.wanted())
        for name, runs in planned(exhibit, seeds).items():
            records = tuple(record for run in runs if (record := self.record(run)) is not None)
            if records:
                found[name] = Study(name, records[0].command, records)
        return found

    def _by_name(self, pattern: str) -> dict[str, Study]:
        if not (pattern and self._results):
            return {}
        found = sorted(self._results.glob(pattern))
        return {
            path.stem: Study.load(path)
            for path in found
            if "records" in json.loads(path.read_text())
        }


def planned(exhibit: Exhibit, seeds: Iterable[int]) -> dict[str, list[Run[Any]]]:
    """Returns every run of an exhibit with every seed."""
    each = list(seeds)
    return {
        name: [dataclasses.replace(run, seed=seed) for seed in each]
        for name, run in exhibit.plan().items()
    }


def save_studies(path: Path, title: str, command: str, studies: Mapping[str, Study]) -> None:
    """Writes several studies into one JSON file that an archive can read again."""
    content = {
        "title": title,
        "command": command,
        "studies": {name: each.to_json() for name, each in studies.items()},
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def _all_records(folder: Path) -> Iterator[Record]:
    # Those deeper in the folder first: where two are of one run, the study at the top counts.
    for path in sorted(folder.rglob("*.json"), key=lambda path: (-len(path.parts), path)):
        value = json.loads(path.read_text())
        if isinstance(value, dict):
            for study in (value, *value.get("studies", {}).values()):
                yield from map(Record.from_json, study.get("records", ()))


def _run_name(record: Record) -> str:
    """Returns today's name of the record's run; settings added since have their defaults."""
    try:
        return Run.from_json(record.run).name
    except (TypeError, ValueError):  # a setting or a method that is no more
        return record.name
