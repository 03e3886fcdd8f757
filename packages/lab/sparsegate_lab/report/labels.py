"""Places labels of dots so that none hides another label or a dot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .line_chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH

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
