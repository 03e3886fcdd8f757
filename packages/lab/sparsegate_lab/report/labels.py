"""Where the names of dots may stand, so that none hides another or a dot."""

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
    """The middle of every dot's name: beside it, or as near as there is room.

    >>> label_spots([(100.0, 100.0)])
    [(111.0, 100.0)]
    """
    taken: list[Spot] = []
    for spot in spots:
        free = (at for at in _around(spot) if _inside(at) and not _hidden(at, spots, taken))
        taken.append(next(free, (spot[0] + NEAR, spot[1])))
    return taken


def _around(spot: Spot) -> Iterator[Spot]:
    """To the right first, then round, upwards and downwards in turn, then farther out."""
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
