"""Microseconds of GPU work, by replaying CUDA graphs.

By the clock on the wall where there is no GPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

MOST_LAUNCHES = 1024

Work = Callable[[int], object]
"""Starts the work once; the number says which copy of the weights to use."""


class Replay:
    """A graph of many launches, one after the other, each with the next copy of the weights."""

    def __init__(self, work: Work, *, copies: int, launches: int) -> None:
        self.launches = max(copies, -(-launches // copies) * copies)
        self.work, self.copies = work, copies
        work(0)  # compiles, and fails here if it must
        self.graph = self._capture() if torch.cuda.is_available() else None

    def microseconds(self) -> float:
        """Of one launch, from one replay."""
        if self.graph is None:
            began = time.perf_counter()
            self._launch()
            return (time.perf_counter() - began) * 1e6 / self.launches
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / self.launches

    def _launch(self) -> None:
        for number in range(self.launches):
            self.work(number % self.copies)

    def _capture(self) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.work(0)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._launch()
        graph.replay()
        torch.cuda.synchronize()
        return graph


def lasting(work: Work, *, copies: int, launches: int, span: float) -> Replay:
    """A graph of at least so many launches that takes so many microseconds: how it begins and ends hardly counts."""
    first = Replay(work, copies=copies, launches=launches)
    wanted = min(MOST_LAUNCHES, round(span / first.microseconds()))
    return first if wanted <= first.launches else Replay(work, copies=copies, launches=wanted)


def medians(replays: Mapping[str, Replay], rounds: int) -> dict[str, dict[str, float]]:
    """Median and quartiles of each, interleaved: every round replays each once, none always first."""
    found: dict[str, list[float]] = {name: [] for name in replays}
    names = list(replays)
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            found[name].append(replays[name].microseconds())
    return {name: _spread(each) for name, each in found.items()}


def _spread(values: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return {"median": round(middle, 3), "low": round(low, 3), "high": round(high, 3)}


def bandwidth(device: torch.device, size: int) -> float:
    """Gigabytes a second of a large kernel, read and written; a copy in a graph is slower."""
    source = torch.randn(size // 4, device=device)
    target = torch.empty_like(source)
    replay = Replay(lambda _: torch.neg(source, out=target), copies=1, launches=3)
    best = min(replay.microseconds() for _ in range(10))
    return round(2 * size / best / 1e3, 1)
