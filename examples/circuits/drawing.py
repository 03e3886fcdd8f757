"""Draws a circuit as an SVG."""

from __future__ import annotations

import html
from collections import defaultdict

from circuit import Circuit
from train import LAYERS
from ways import Part, used

TITLES = [
    "characters",
    *(f"{kind} {1 + layer}" for layer in range(LAYERS) for kind in ("heads", "neurons")),
    "prediction",
]
STEP, GAP, TOP, LEFT = 190, 30, 60, 90
NAMES = {" ": "space", "\n": "new line"}


def drawing(circuit: Circuit, letters: str) -> str:
    """The circuit as an SVG."""
    edges = used(circuit, letters)
    columns: dict[int, list[Part]] = defaultdict(list)
    for part in sorted({part for pair in edges for part in pair}, key=lambda part: part.index):
        columns[part.column].append(part)
    place = {
        part: (LEFT + STEP * column, TOP + GAP * row + GAP * (_most(columns) - len(parts)) / 2)
        for column, parts in columns.items()
        for row, part in enumerate(parts)
    }
    largest = max(map(abs, edges.values()), default=1.0)
    lines = [
        _line(*place[source], *place[reader], value / largest)
        for (source, reader), value in edges.items()
    ]
    dots = [_dot(part, *place[part], letters) for part in place]
    heads = [f'<text x="{LEFT + STEP * at}" y="24">{name}</text>' for at, name in enumerate(TITLES)]
    size = f"0 0 {2 * LEFT + STEP * (len(TITLES) - 1)} {TOP + GAP * _most(columns) + 20}"
    return f'<svg viewBox="{size}" role="img">{"".join(heads + lines + dots)}</svg>'


def _most(columns: dict[int, list[Part]]) -> int:
    return max(map(len, columns.values()), default=1)


def _line(left: float, top: float, right: float, bottom: float, share: float) -> str:
    middle, width = (left + right) / 2, 0.5 + 4 * abs(share)
    way = f"M{left:.0f} {top:.0f}C{middle:.0f} {top:.0f} {middle:.0f} {bottom:.0f} {right:.0f} {bottom:.0f}"
    return f'<path class="{"more" if share > 0 else "less"}" d="{way}" stroke-width="{width:.1f}" opacity="0.6"/>'


def _dot(part: Part, left: float, top: float, letters: str) -> str:
    letter = letters[part.index] if part.kind in ("character", "prediction") else ""
    name = NAMES.get(letter, letter) or f"{part.kind} {part.index}"
    return f'<circle class="{part.kind}" cx="{left:.0f}" cy="{top:.0f}" r="6"/><text x="{left:.0f}" y="{top - 10:.0f}">{html.escape(name)}</text>'
