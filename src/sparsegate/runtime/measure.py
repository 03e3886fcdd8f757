"""How long functions take, side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

IN_A_ROW = 5  # and as many before them that are not counted, so that each finds the caches as it left them


def interleaved(
    ways: Mapping[str, Callable[[], object]], *, seconds: float = 0.3, least: int = 3, most: int = 50
) -> dict[str, float]:
    """The median time of each way, a few calls of one after a few of the other, so that a busy moment hits all.

    >>> times = interleaved({"short": lambda: sum(range(10)), "long": lambda: sum(range(100_000))}, seconds=0.02)
    >>> times["short"] < times["long"]
    True
    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()  # packs, allocates, warms
    began = time.perf_counter()
    rounds = 0
    while rounds < least or (rounds < most and time.perf_counter() - began < seconds):
        for name, way in ways.items():
            quick = rounds and taken[name][0] < 0.002
            blocks = [_timed(way) for _ in range(2 * IN_A_ROW if quick else 2)]
            taken[name] += blocks[len(blocks) // 2 :]
        rounds += 1
    return {name: statistics.median(each) for name, each in taken.items()}


def _timed(way: Callable[[], object]) -> float:
    _settle()
    began = time.perf_counter()
    way()
    _settle()
    return time.perf_counter() - began


def _settle() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
