"""Times functions side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

BLOCK = 0.01
"""Seconds of consecutive calls that count; as many calls before them warm the caches up."""
ENOUGH = 10.0
"""Seconds after which fewer than the least number of rounds is enough."""
SLOW = 0.1
"""Seconds of a call that leaves nothing of the previous calls in the caches."""


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
        way()  # packs weights, allocates memory, warms up
    began = time.perf_counter()
    rounds = 0
    while rounds < 1 or _goes_on(rounds, time.perf_counter() - began, seconds, least, most):
        for name in list(ways)[:: -1 if rounds % 2 else 1]:  # the order alternates
            taken[name] += _block(ways[name], taken[name][0] if rounds else SLOW)
        rounds += 1
    return taken


def _goes_on(rounds: int, elapsed: float, seconds: float, least: int, most: int) -> bool:
    if rounds < least:
        return elapsed < ENOUGH  # a slow network is not repeated many times
    return rounds < most and elapsed < seconds


def _block(way: Callable[[], object], expected: float) -> list[float]:
    """Times of consecutive calls; the first half warms up, unless a call is very long."""
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
