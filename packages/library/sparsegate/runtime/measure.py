"""How long functions take, side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

BLOCK = 0.01
"""Seconds of calls in a row that are counted, after as many that are not: each finds the caches as it left them."""
ENOUGH = 10.0
"""Seconds after which the least number of rounds is given up."""
SLOW = 0.1
"""Seconds of a call after which nothing is left in the caches of before."""


def interleaved(
    ways: Mapping[str, Callable[[], object]],
    *,
    seconds: float = 0.3,
    least: int = 3,
    most: int = 50,
) -> dict[str, float]:
    """The median seconds of a call to each function; see `samples` for how it is measured.

    >>> ways = {"short": lambda: sum(range(10)), "long": lambda: sum(range(100_000))}
    >>> times = interleaved(ways, seconds=0.02)
    >>> times["short"] < times["long"]
    True
    """
    found = samples(ways, seconds=seconds, least=least, most=most)
    return {name: statistics.median(times) for name, times in found.items()}


def samples(
    ways: Mapping[str, Callable[[], object]],
    *,
    seconds: float = 0.3,
    least: int = 3,
    most: int = 50,
) -> dict[str, list[float]]:
    """The seconds of each call to each function, called in turns so that noise hits all alike.

    Args:
        ways: The functions by name.
        seconds: Time to spend on all of them together.
        least: Rounds to make at least, unless that takes longer than ENOUGH seconds.
        most: Rounds to make at the most.

    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()  # packs, allocates, warms
    began = time.perf_counter()
    rounds = 0
    while rounds < 1 or _goes_on(rounds, time.perf_counter() - began, seconds, least, most):
        for name in list(ways)[:: -1 if rounds % 2 else 1]:  # none always comes first
            taken[name] += _block(ways[name], taken[name][0] if rounds else SLOW)
        rounds += 1
    return taken


def _goes_on(rounds: int, elapsed: float, seconds: float, least: int, most: int) -> bool:
    if rounds < least:
        return elapsed < ENOUGH  # a network that takes seconds is not run again and again
    return rounds < most and elapsed < seconds


def _block(way: Callable[[], object], expected: float) -> list[float]:
    """Some calls in a row; the first half is not counted, unless a call is so long that nothing is left of before."""
    if expected >= SLOW:
        return [_timed(way)]
    count = max(1, min(50, int(BLOCK / expected)))
    return [_timed(way) for _ in range(2 * count)][count:]


def _timed(way: Callable[[], object]) -> float:
    _settle()
    began = time.perf_counter()
    way()
    _settle()
    return time.perf_counter() - began


def _settle() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
