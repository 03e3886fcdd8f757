"""Accuracy over kept weights: a dot a run, and a line through those that no other run beats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sparsegate.frontier import unbeaten
from sparsegate.record import Record
from sparsegate.web import Html, element, join

from .line_chart import BOTTOM, HEIGHT, LEFT, RIGHT, WIDTH, down, marks, short
from .scale import Scale, accuracies, counts

Spot: TypeAlias = tuple[float, float]


def frontier(records: Sequence[Record]) -> list[int]:
    """The places of the runs that no other beats in both kept weights and test accuracy, fewest weights first."""
    return unbeaten([(each.kept, each.test) for each in records])


def frontier_chart(records: Sequence[Record], names: Sequence[str]) -> Html:
    """The picture; runs on the frontier are green."""
    across, up = counts([record.kept for record in records]), accuracies([record.test for record in records])
    spots = [(_x(across, record.kept), down(up.share(record.test))) for record in records]
    on = frontier(records)
    line = " ".join(f"{spots[place][0]:.1f},{spots[place][1]:.1f}" for place in on)
    about = f"Test accuracy over kept weights of {len(records)} runs; the table below has the numbers"
    return element(
        "svg",
        marks(up, lambda tick: f"{tick:g} %"),
        _feet(across),
        element("polyline", points=line, class_="frontier"),
        join(_dot(spot, name, place in on) for place, (spot, name) in enumerate(zip(spots, names, strict=True))),
        join(element("text", name, x=x, y=y, class_="label") for (x, y), name in _labels(spots, names)),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=about,
        id="chart-frontier",
        style="max-width:600px",
    )


def _x(scale: Scale, kept: int) -> float:
    return LEFT + 8 + (WIDTH - LEFT - RIGHT - 20) * scale.share(kept)


def _feet(scale: Scale) -> Html:
    ticks = scale.ticks
    words = (element("text", short(tick), x=_x(scale, int(tick)), y=HEIGHT - 8, text_anchor="middle") for tick in ticks)
    lines = (
        element("line", x1=_x(scale, int(tick)), x2=_x(scale, int(tick)), y1=8, y2=HEIGHT - BOTTOM, class_="grid")
        for tick in ticks
    )
    return join((*lines, *words))


def _dot(spot: Spot, name: str, on: bool) -> Html:
    x, y = spot
    return element("circle", element("title", name), cx=x, cy=y, r=4, class_="open" if on else "shut")


def _labels(spots: Sequence[Spot], names: Sequence[str]) -> list[tuple[Spot, str]]:
    """Names beside their dots, each moved down until no other lies under it."""
    taken: list[Spot] = []
    for x, y in spots:
        at = (x + 7, y - 3)
        while any(abs(at[0] - other[0]) < 13 and abs(at[1] - other[1]) < 10 for other in taken):
            at = (at[0], at[1] + 5)
        taken.append(at)
    return list(zip(taken, names, strict=True))
