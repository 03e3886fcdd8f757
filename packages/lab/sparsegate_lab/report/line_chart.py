"""Draws a line over epochs as SVG, with a cursor that a script can move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sparsegate.web import Html, element, join

from .scale import AxisScale

Words: TypeAlias = Callable[[float | int], str]

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 8, 26


def line_chart(
    name: str,
    about: str,
    epochs: Sequence[int],
    values: Sequence[float | int],
    scale: AxisScale,
    words: Words,
) -> Html:
    """Returns one line; `words` formats the marks of the scale, `about` describes the chart."""
    points = [
        (across(epoch, epochs), down(scale.share(value)))
        for epoch, value in zip(epochs, values, strict=True)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    floor = HEIGHT - BOTTOM
    area = f"M{points[0][0]:.1f},{floor} L{line.replace(' ', ' L')} L{points[-1][0]:.1f},{floor}Z"
    return element(
        "svg",
        marks(scale, words),
        _epochs(epochs),
        element("path", d=area, class_="area"),
        element("polyline", points=line, class_="curve"),
        element("line", x1=LEFT, x2=LEFT, y1=TOP, y2=floor, class_="cursor"),
        element("circle", cx=points[-1][0], cy=points[-1][1], r=5, class_="dot"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=about,
        id=f"chart-{name}",
    )


def across(epoch: int, epochs: Sequence[int]) -> float:
    """Returns the horizontal position of an epoch."""
    first, last = 0, max(1, epochs[-1])
    return LEFT + (WIDTH - LEFT - RIGHT) * (epoch - first) / (last - first)


def down(share: float | int) -> float:
    """Returns the vertical position of a share of the height."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def marks(scale: AxisScale, words: Words) -> Html:
    """Draws lines and labels at the marks of the vertical scale."""
    return join(
        part
        for tick in scale.ticks
        for part in (
            element(
                "line",
                x1=LEFT,
                x2=WIDTH - RIGHT,
                y1=down(scale.share(tick)),
                y2=down(scale.share(tick)),
                class_="grid",
            ),
            element(
                "text", words(tick), x=LEFT - 6, y=down(scale.share(tick)) + 3.5, text_anchor="end"
            ),
        )
    )


def short(number: float | int) -> str:
    """Returns a short form of a count.

    >>> [short(number) for number in (20, 5_000, 200_000, 1_000_000)]
    ['20', '5k', '200k', '1M']
    """
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def _epochs(epochs: Sequence[int]) -> Html:
    last = epochs[-1]
    step = max(1, round(last / 5))
    shown = [
        epoch for epoch in range(0, last + 1, step) if last - epoch >= 0.6 * step or epoch == last
    ] + ([last] if last % step else [])
    first, *others = shown
    under: dict[str, str | int] = {"y": HEIGHT - 8, "text_anchor": "middle"}
    words = (element("text", str(epoch), x=across(epoch, epochs), **under) for epoch in others)
    return join((element("text", f"epoch {first}", x=LEFT, y=HEIGHT - 8), *words))
