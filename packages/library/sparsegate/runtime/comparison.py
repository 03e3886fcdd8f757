"""Times a network by every engine that is there, side by side with ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from sparsegate.speed import BASELINE, OURS, Timing

from .choice import Choice
from .measure import interleaved
from .network import sparse
from .rivals import RIVALS, Forward

Outcome = tuple[Timing, Choice, list[str]]


def timings(
    model: nn.Module,
    shape: Sequence[int],
    *,
    batches: Sequence[int],
    threads: Sequence[int],
    engines: Sequence[str],
    seconds: float = 1.0,
) -> Iterator[Outcome]:
    """A timing for every number of threads and every batch as it is measured, our choice for it, and what failed.

    Inputs of the shape are random. Every engine gets the same, and its outputs are compared.
    """
    model = model.eval()
    for num_threads in threads:
        for batch in batches:
            with _threads(num_threads):
                outcome = _measured(model, _random(batch, shape), num_threads, engines, seconds)
            yield outcome


def _measured(
    model: nn.Module, x: Tensor, threads: int, engines: Sequence[str], seconds: float
) -> Outcome:
    fast = sparse(model, x)
    with torch.inference_mode():
        ways, notes = _prepared(model, x, threads, engines)
        ways[OURS] = fast
        outputs = {name: way(x) for name, way in ways.items()}
        calls = {name: partial(way, x) for name, way in ways.items()}
        times = interleaved(calls, seconds=seconds * len(calls))
    milliseconds = {name: round(1e3 * time, 5) for name, time in times.items()}
    skipping = (*(name for name in RIVALS if RIVALS[name].skips_zeros), OURS)
    return (
        Timing(len(x), threads, milliseconds, _differences(outputs), skipping),
        fast.choices[0],
        notes,
    )


def _prepared(
    model: nn.Module, x: Tensor, threads: int, engines: Sequence[str]
) -> tuple[dict[str, Forward], list[str]]:
    """Every engine that can run the model, and what is wrong with the others."""
    ways: dict[str, Forward] = {}
    notes = []
    for name in engines:
        try:
            ways[name] = RIVALS[name].prepare(model, x, threads=threads)
        except Exception as error:  # whatever another's code does, the rest of the table stands
            if name == BASELINE:
                raise
            notes.append(
                f"{name} failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            )
    return ways, notes


def _differences(outputs: Mapping[str, Tensor]) -> dict[str, float]:
    """The largest difference from the baseline's outputs, beside the largest of these."""
    wanted = outputs[BASELINE]
    scale = float(wanted.abs().max()) or 1.0
    return {
        name: float((each - wanted).abs().max()) / scale
        for name, each in outputs.items()
        if name != BASELINE
    }


def _random(batch: int, shape: Sequence[int]) -> Tensor:
    return torch.rand(batch, *shape, generator=torch.Generator().manual_seed(0))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
