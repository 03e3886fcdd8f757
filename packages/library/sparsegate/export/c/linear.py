"""Writes a fully connected layer in C: its weights, unrolled."""

from __future__ import annotations

from ..plan import Stage
from ..taps import Unit, parts, units_of
from .text import Arithmetic, function

SUMS = 4  # of a long row: additions to different sums run at the same time
LONG = 16


def linear_panel(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    """Functions for a panel of images."""
    return _functions(f"{name}_panel", stage, arithmetic, lanes="")


def linear_one(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    """Functions for one image."""
    return _functions(f"{name}_one", stage, arithmetic, lanes="1")


def _functions(name: str, stage: Stage, arithmetic: Arithmetic, lanes: str) -> str:
    groups = parts(units_of(stage), width=4)
    lines = []
    for number, group in enumerate(groups):
        body = [line for unit in group for line in _unit(unit, arithmetic, lanes)]
        lines.append(function(f"{name}_{number}", arithmetic, body))
    shift, loop = (
        ("", []) if lanes else (" + lane", ["for (int lane = 0; lane < PANEL; lane += LANES) {"])
    )
    calls = [f"{name}_{number}(x{shift}, y{shift});" for number in range(len(groups))]
    return "\n".join([*lines, function(name, arithmetic, [*loop, *calls, *("}" for _ in loop)])])


def _unit(unit: Unit, arithmetic: Arithmetic, lanes: str) -> list[str]:
    sums = SUMS if len(unit.taps) >= LONG else 1
    times = "" if lanes else " * PANEL"
    starts = [arithmetic.bias(unit), *["0"] * (sums - 1)]
    sums_at_start = ", ".join(f"a{n} = SPLAT{lanes}({start})" for n, start in enumerate(starts))
    lines = [f"{{ vec{lanes} {sums_at_start};"]
    for n, (weight, at) in enumerate(arithmetic.weights(unit)):
        lines.append(f"MAC{lanes}(a{n % sums}, {weight}, x + {at}{times});")
    lines += [f"a0 += {' + '.join(f'a{n}' for n in range(1, sums))};"] if sums > 1 else []
    return [*lines, arithmetic.put(f"y + {unit.place}{times}", "a0", unit, lanes=lanes), "}"]
