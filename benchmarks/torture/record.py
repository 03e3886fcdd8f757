"""The record of what was tried: counts of outcomes, and the seeds that repeat it."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

from sparsegate.bench import machine, versions
from sparsegate_runtime.atomic import write_atomically

from .attack import FAULT


class Tally:
    """The outcomes of one attack."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults: dict[str, str] = {}

    def add(self, case: str, outcome: str) -> bool:
        """Counts an outcome; true for a fault that was not seen before."""
        new = outcome.startswith(FAULT) and outcome not in self.faults
        self.counts[outcome] += 1
        if new:
            self.faults[outcome] = case
        return new

    def to_json(self) -> dict[str, Any]:
        """Counts, and one case for every fault."""
        faults = {name: count for name, count in self.counts.items() if name.startswith(FAULT)}
        fine = {name: count for name, count in sorted(self.counts.items()) if name not in faults}
        return {
            "title": self.title,
            "tried": self.counts.total(),
            "outcomes": fine,
            "faults": {
                name.removeprefix(FAULT): {"count": count, "case": self.faults[name]}
                for name, count in faults.items()
            },
        }


def write(path: Path, tallies: dict[str, Tally], run: dict[str, Any], *, add: bool) -> None:
    """Writes the record; with `add`, to the counts of an existing one."""
    attacks = {name: tally.to_json() for name, tally in tallies.items() if tally.counts}
    value = _described({"runs": [run], "attacks": attacks})
    if add and path.exists():
        value = summed(json.loads(path.read_text()), value)
    save(path, value)


def summed(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The record of all runs of two records, described as the second one."""
    return {
        **before,
        **more,
        "runs": [*before["runs"], *more["runs"]],
        "attacks": _added(before["attacks"], more["attacks"]),
    }


def add_suite(path: Path, suite: dict[str, Any]) -> None:
    """Adds a run of the whole test suite with fresh seeds to a record."""
    empty: dict[str, Any] = {"runs": [], "attacks": {}}
    value = json.loads(path.read_text()) if path.exists() else _described(empty)
    save(path, {**value, "suites": [*value.get("suites", []), suite]})


def save(path: Path, value: dict[str, Any]) -> None:
    """Writes a record, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(value, indent=1) + "\n").encode())


def _described(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "title": "Attacks on the whole system: what was tried, and what came of it",
        "command": "python -m benchmarks.torture",
        "machine": machine(),
        "versions": versions("torch", "numpy"),
        **value,
    }


def _added(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The sums of the counts of two records."""
    total = dict(before)
    for name, new in more.items():
        old = before.get(name)
        if old is None:
            total[name] = new
            continue
        outcomes = collections.Counter(old["outcomes"]) + collections.Counter(new["outcomes"])
        faults = {text: dict(each) for text, each in old["faults"].items()}
        for text, each in new["faults"].items():
            known = faults.setdefault(text, {"count": 0, "case": each["case"]})
            known["count"] += each["count"]
        total[name] = {
            "title": new["title"],
            "tried": old["tried"] + new["tried"],
            "outcomes": dict(sorted(outcomes.items())),
            "faults": faults,
        }
    return total
