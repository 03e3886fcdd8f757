"""A comparison of speeds as rows of text."""

from __future__ import annotations

from sparsegate.speed import OURS, Speed, Timing

from .table import Row


def speed_table(speed: Speed) -> list[Row]:
    """The heads, and a row for every number of threads and batch: milliseconds of every engine, then our speed-ups."""
    engines = speed.engines
    heads = (
        "threads",
        "batch",
        *(f"{name} ms" for name in engines),
        "over eager",
        "over the best dense engine",
    )
    return [heads, *(_row(timing, engines) for timing in speed.timings)]


def _row(timing: Timing, engines: list[str]) -> Row:
    times = (_ms(timing.milliseconds.get(name)) for name in engines)
    if OURS not in timing.milliseconds:
        return (str(timing.threads), str(timing.batch), *times, "-", "-")
    over = f"{timing.over_best_dense():.2f}x ({timing.best_dense})"
    return (str(timing.threads), str(timing.batch), *times, f"{timing.over_baseline():.2f}x", over)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}" if value < 1 else f"{value:.2f}"
