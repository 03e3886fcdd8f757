"""The part of a page that says how to repeat the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparsegate.web import Html, element, section
from sparsegate_lab.record import Record

from .html_table import Head, folded, html_table


def settings_section(record: Record) -> Html:
    """Returns command, settings, machine and versions."""
    made = _table("Made on", {**record.machine, "training, seconds": record.seconds})
    columns = (
        _table("Settings", flat(effective(record.run))),
        element("div", made, _table("Made with", record.versions)),
    )
    return section(
        "settings",
        "Make it again",
        element("pre", record.command, tabindex=0),
        *map(_note, record.notes),
        element("div", *columns, class_="columns"),
    )


def _note(note: str) -> Html:
    """Returns a remark; long flags that repeat the run are collapsed."""
    if note.startswith("--"):
        return folded("How to repeat it closely", element("pre", note, tabindex=0))
    return element("p", note, class_="note")


WISHES = ("keep", "weights", "max_drop", "bytes", "price", "path")
"""Settings of a target; any one of them sets it."""
REPLACED = ("penalty", "gate_lr", "ramp", "freeze")
"""Settings of learned gates that a target replaces."""


def effective(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run without those that had no effect.

    >>> effective({"stop": {"rate": 0.0, "drop": 0.5}, "distil": {"teacher": "", "share": 0.5}})
    {}
    >>> effective({"stop": None, "method": None, "distil": 5})
    {'method': None}
    """
    method = _part(settings, "method")
    target = _part(method, "target")
    aimed = any(target.get(wish) is not None for wish in WISHES)
    idle = REPLACED if aimed else ("target",)
    found = {**settings}
    if "target" in method:
        found["method"] = {name: value for name, value in method.items() if name not in idle}
    if not _part(settings, "distil").get("teacher"):
        found.pop("distil", None)
    if not _part(settings, "stop").get("rate"):
        found.pop("stop", None)
    return found


def _part(settings: dict[str, Any], name: str) -> dict[str, Any]:
    """The settings of a part; none if it is absent, null or something else."""
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings under names with dots.

    >>> flat({"epochs": 2, "method": {"name": "dense"}})
    {'epochs': 2, 'method.name': 'dense'}
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= (
            flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
        )
    return found


def said(value: Any) -> str:
    """Formats a setting."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _table(title: str, values: Mapping[str, Any]) -> Html:
    rows = [(name, said(value)) for name, value in values.items()]
    return element(
        "div",
        element("h3", title),
        html_table(title, [Head("name"), Head("value")], rows),
        class_="block",
    )
