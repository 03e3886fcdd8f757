"""Formats a speed comparison as rows of text."""

from __future__ import annotations

from sparsegate.text_table import Row

from .record import BASELINE, MAX_SPREAD, OURS, Speed, Timing

NOISY = (
    f"! marks a time whose quartiles are more than {100 * MAX_SPREAD:.0f} % of its median apart; "
    "speed-ups of such times are not shown. The machine was busy: repeat with a larger --seconds"
)
UNSURE = "unsure"


def speed_table(speed: Speed) -> list[Row]:
    """A header, then a row for each number of threads and batch size.

    A time is a median in milliseconds, followed by its quartiles if they are known.
    """
    engines = speed.engines
    header = (
        "threads",
        "batch",
        *(f"{name} ms" for name in engines),
        "over eager",
        "over the best dense engine",
    )
    return [header, *(_cells(timing, engines) for timing in speed.timings)]


def _cells(timing: Timing, engines: list[str]) -> Row:
    times = (_time(timing, name) for name in engines)
    first = (str(timing.threads), str(timing.batch), *times)
    if OURS not in timing.milliseconds:
        return (*first, "-", "-")
    best = timing.best_dense
    over_eager = _ratio(timing, timing.over_baseline(), BASELINE)
    return (*first, over_eager, f"{_ratio(timing, timing.over_best_dense(), best)} ({best})")


def _ratio(timing: Timing, value: float, other: str) -> str:
    noisy = timing.is_noisy(OURS) or timing.is_noisy(other)
    return UNSURE if noisy else f"{value:.2f}x"


def _time(timing: Timing, engine: str) -> str:
    if engine not in timing.milliseconds:
        return "-"
    text = _ms(timing.milliseconds[engine])
    if engine in timing.quartiles:
        low, high = timing.quartiles[engine]
        text += f" ({_ms(low)} to {_ms(high)})"
    return text + ("!" if timing.is_noisy(engine) else "")


def _ms(value: float) -> str:
    return f"{value:.4f}" if value < 1 else f"{value:.2f}"
