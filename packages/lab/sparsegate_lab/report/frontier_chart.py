"""Draws accuracy over kept weights: a dot for each run, and the frontier as a line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from sparsegate.web import Html, element, join
from sparsegate_lab.record import Record
from sparsegate_lab.study import unbeaten

from .line_chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, down, marks, short
from .scale import AxisScale, accuracies, counts

FOOT = 12  # under the numbers, for the title of the axis


def data_of(records: Sequence[Record]) -> list[str]:
    """Returns the datasets of the runs, each once."""
    return list(dict.fromkeys(str(record.run["data"]) for record in records))


def frontier(records: Sequence[Record]) -> list[int]:
    """Returns the indices of runs that no other run beats in both kept weights and accuracy."""
    return unbeaten([(record.kept, record.test) for record in records])


def frontiers(records: Sequence[Record]) -> list[list[int]]:
    """Returns the frontier of each dataset; accuracies on different data are not compared."""
    groups = (
        [index for index, record in enumerate(records) if record.run["data"] == data]
        for data in data_of(records)
    )
    return [[group[i] for i in frontier([records[index] for index in group])] for group in groups]


def frontier_chart(records: Sequence[Record], names: Sequence[str]) -> Html:
    """Returns the chart; runs on the frontier are green."""
    across, up = (
        counts([record.kept for record in records]),
        accuracies([record.test for record in records]),
    )
    spots = [(_x(across, record.kept), down(up.share(record.test))) for record in records]
    lines = frontiers(records)
    on = {index for line in lines for index in line}
    about = (
        f"Test accuracy over kept weights of {len(records)} runs; the table below has the numbers"
    )
    return element(
        "svg",
        marks(up, lambda tick: f"{tick:g} %"),
        _feet(across),
        *(_line([spots[index] for index in line]) for line in lines),
        join(
            _label(spot, at, name)
            for spot, at, name in zip(spots, label_spots(spots), names, strict=True)
        ),
        join(
            _dot(spot, f"{name}: {record.test:.2f} %, {record.kept:,} weights", index in on)
            for index, (spot, name, record) in enumerate(zip(spots, names, records, strict=True))
        ),
        viewBox=f"0 0 {WIDTH} {HEIGHT + FOOT}",
        role="img",
        aria_label=about,
        id="chart-frontier",
    )


def _line(spots: Sequence[Spot]) -> Html:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    return element("polyline", points=points, class_="frontier")


def _x(scale: AxisScale, kept: int) -> float:
    return LEFT + 8 + (WIDTH - LEFT - RIGHT - 20) * scale.share(kept)


def _feet(scale: AxisScale) -> Html:
    ticks = scale.ticks
    words = (
        element("text", short(tick), x=_x(scale, int(tick)), y=HEIGHT - 8, text_anchor="middle")
        for tick in ticks
    )
    lines = (
        element(
            "line",
            x1=_x(scale, int(tick)),
            x2=_x(scale, int(tick)),
            y1=8,
            y2=HEIGHT - BOTTOM,
            class_="grid",
        )
        for tick in ticks
    )
    title = element("text", "weights kept", x=WIDTH - RIGHT, y=HEIGHT + FOOT - 4, text_anchor="end")
    return join((*lines, *words, title))


def _dot(spot: Spot, says: str, on: bool) -> Html:
    x, y = spot
    return element(
        "circle", element("title", says), cx=x, cy=y, r=4, class_="open" if on else "shut"
    )


def _label(spot: Spot, at: Spot, name: str) -> Html:
    """Draws a label, with a line to its dot if it is far away."""
    lead = element("line", x1=spot[0], y1=spot[1], x2=at[0], y2=at[1], class_="lead-line")
    word = element("text", name, x=at[0], y=at[1] + 3.5, class_="label", text_anchor="middle")
    return join((lead if math.dist(spot, at) > NEAR + 1 else None, word))


Spot: TypeAlias = tuple[float, float]

NEAR = 11.0
RINGS = (NEAR, 19.0, 28.0, 38.0, 50.0, 64.0, 80.0, 100.0, 125.0)
DIRECTIONS = 16
WIDE, HIGH = 13.0, 11.0  # a name
DOT = 9.0


def label_spots(spots: Sequence[Spot]) -> list[Spot]:
    """Returns the center of every label: next to its dot, or as close as there is room.

    >>> label_spots([(100.0, 100.0)])
    [(111.0, 100.0)]
    """
    taken: list[Spot] = []
    for spot in spots:
        free = (at for at in _around(spot) if _inside(at) and not _hidden(at, spots, taken))
        taken.append(next(free, (spot[0] + NEAR, spot[1])))
    return taken


def _around(spot: Spot) -> Iterator[Spot]:
    """Yields candidate positions: to the right first, then around the dot, then farther away."""
    for ring in RINGS:
        for step in range(DIRECTIONS):
            turn = (step + 1) // 2 * (-1) ** step * 2 * math.pi / DIRECTIONS
            yield spot[0] + ring * math.cos(turn), spot[1] + ring * math.sin(turn)


def _inside(at: Spot) -> bool:
    x, y = at
    return LEFT + WIDE / 2 < x < WIDTH - RIGHT + 2 and TOP + 2 < y < HEIGHT - BOTTOM - HIGH / 2


def _hidden(at: Spot, spots: Sequence[Spot], taken: Sequence[Spot]) -> bool:
    over_name = any(abs(at[0] - x) < WIDE and abs(at[1] - y) < HIGH for x, y in taken)
    return over_name or any(abs(at[0] - x) < DOT and abs(at[1] - y) < DOT for x, y in spots)
