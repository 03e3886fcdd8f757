"""Draws the gates' histogram as SVG; a script can move its bars."""

from __future__ import annotations

from collections.abc import Sequence

from sparsegate.web import Html, element, join

from .line_chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, down, marks, short
from .scale import counts

GAP = 1.4


def histogram(first: Sequence[int], most: int) -> Html:
    """Returns bars of the first counts, on a logarithmic scale up to `most`."""
    step = (WIDTH - LEFT - RIGHT) / len(first)
    scale = counts([1, most])
    bars = (
        _bar(place, len(first), step, scale.share(count) if count else 0.0)
        for place, count in enumerate(first)
    )
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    return element(
        "svg",
        marks(scale, short),
        join(bars),
        element("line", x1=middle, x2=middle, y1=TOP, y2=HEIGHT - BOTTOM, class_="edge"),
        *(
            element(
                "text",
                words,
                x=LEFT + (WIDTH - LEFT - RIGHT) * at,
                y=HEIGHT - 8,
                text_anchor=anchor,
            )
            for words, at, anchor in (
                ("0 closed", 0, "start"),
                ("0.5", 0.5, "middle"),
                ("open 1", 1, "end"),
            )
        ),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label="Number of gates by value; the slider above chooses the epoch",
        id="chart-gates",
        data_top=TOP,
        data_floor=HEIGHT - BOTTOM,
        data_most=int(scale.high),
    )


def _bar(place: int, bins: int, step: float, share: float) -> Html:
    top = down(share)
    kind = "open" if place >= bins // 2 else "shut"
    box = {
        "x": LEFT + place * step + GAP / 2,
        "y": top,
        "width": step - GAP,
        "height": HEIGHT - BOTTOM - top,
    }
    return element("rect", class_=kind, **box)
