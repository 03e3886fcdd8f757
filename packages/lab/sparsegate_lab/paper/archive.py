"""The records that exist already, found by the run that they are of."""

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
    """Records under a folder of results, committed, and under a folder of runs, made here.

    A record counts for a run only if all settings are equal: one that was made before a recipe changed is not used.
    """

    def __init__(self, *, results: Path | None = None, runs: Path | None = None) -> None:
        self._results, self._runs = results, runs
        self._committed = (
            {_run_name(record): record for record in _all_records(results)} if results else {}
        )

    def record(self, run: Run[Any]) -> Record | None:
        """The record of a run, if there is one."""
        if run.name in self._committed:
            return self._committed[run.name]
        return RunFolder(self._runs / run.name, run).record() if self._runs else None

    def records(self) -> Iterator[Record]:
        """Every record, those that were made here first."""
        for path in sorted(self._runs.glob("*/record.json")) if self._runs else ():
            yield Record.load(path)
        yield from self._committed.values()

    def missing(self, exhibit: Exhibit, seeds: Iterable[int]) -> list[Run[Any]]:
        """The runs of an exhibit that have no record yet."""
        return [
            run
            for each in planned(exhibit, seeds).values()
            for run in each
            if self.record(run) is None
        ]

    def studies(self, exhibit: Exhibit, seeds: Iterable[int]) -> dict[str, Study]:
        """What an exhibit is made of: the studies it plans, as far as they are there, and those it reads by name."""
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
    """Every run of an exhibit with every seed."""
    each = list(seeds)
    return {
        name: [dataclasses.replace(run, seed=seed) for seed in each]
        for name, run in exhibit.plan().items()
    }


def save_studies(path: Path, title: str, command: str, studies: Mapping[str, Study]) -> None:
    """Writes several studies into one JSON file, as an archive finds them again."""
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
    """The name that the record's run has today: settings that were added since count as their defaults."""
    try:
        return Run.from_json(record.run).name
    except (TypeError, ValueError):  # a setting or a method that is no more
        return record.name
