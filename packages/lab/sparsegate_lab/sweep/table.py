"""A sweep as rows of text, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsegate.bench import save_plot
from sparsegate.text_table import Row

from .outcome import Outcome, SweepResult

FACTS: Row = ("weights", "rate", "bytes", "validation %", "test %", "seconds", "")


def sweep_table(result: SweepResult) -> list[Row]:
    """The heads and a row for every trial: the smallest networks first, unfinished ones last."""
    names = list(dict.fromkeys(name for each in result.outcomes for name in each.settings))
    best = {each.number for each in result.best()}
    ordered = sorted(
        result.outcomes,
        key=lambda each: (each.state != "ended", each.bytes or 0, -(each.validation or 0)),
    )
    rows = [_row(each, names, each.number in best) for each in ordered]
    return [("trial", *names, *FACTS), *rows]


def plot_sweep(result: SweepResult, path: Path) -> list[Path]:
    """Draws accuracy over file size next to a path; nothing if matplotlib is missing.

    Args:
        result: the sweep; at least one trial must have ended.
        path: the files get this path, with other suffixes.

    Returns:
        The files.
    """
    best = sorted(result.best(), key=lambda each: each.bytes or 0)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot(*_points(result.ended), "o", alpha=0.4, label="all trials")
        axes.plot(*_points(best), "o-", color="black", label="best by validation")
        axes.set(
            xscale="log",
            xlabel="bytes of the .sg file",
            ylabel="validation accuracy in percent",
            title=f"{result.name}: {len(result.ended)} networks",
        )
        axes.grid(visible=True, alpha=0.3)
        axes.legend(loc="lower right")

    return save_plot(draw, path, size=(6.4, 4.2)) if result.ended else []


def _points(outcomes: list[Outcome]) -> tuple[list[int | None], list[float | None]]:
    return [each.bytes for each in outcomes], [each.validation for each in outcomes]


def _row(outcome: Outcome, names: list[str], is_best: bool) -> Row:
    settings = (_cell(outcome.settings.get(name, "-")) for name in names)
    rate = outcome.total / max(1, outcome.kept or 0) if outcome.total else None
    remark = "best" if is_best else "" if outcome.state == "ended" else outcome.why or outcome.state
    return (
        str(outcome.number),
        *settings,
        _fixed(outcome.kept, 0),
        _fixed(rate, 1),
        _fixed(outcome.bytes, 0),
        _fixed(outcome.validation, 2),
        _fixed(outcome.test, 2),
        _fixed(outcome.seconds, 0),
        remark,
    )


def _cell(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fixed(value: float | int | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
