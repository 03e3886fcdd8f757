"""Times a network in every available engine and in ours, interleaved."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from sparsegate.runtime import Choice, choice_of, samples, sparse

from .engines import ENGINES, Forward
from .record import BASELINE, OURS, Timing

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
    """Yields a timing for each number of threads and batch size as soon as it is measured.

    Inputs are random; all engines get the same ones, and their outputs are compared.

    Args:
        model: The network; it is put into eval mode.
        shape: The shape of one input, without the batch dimension.
        batches: Batch sizes.
        threads: Numbers of threads.
        engines: Names in `ENGINES` to compare with; the first must be the baseline.
        seconds: Time to spend on each engine for each batch size.

    Yields:
        The timing, the kernels that `sparse` chose, and notes about engines that failed.

    """
    model = model.eval()
    for num_threads in threads:
        for batch in batches:
            with _threads(num_threads):
                outcome = _measure(model, _random(batch, shape), num_threads, engines, seconds)
            yield outcome


def _measure(
    model: nn.Module, x: Tensor, threads: int, engines: Sequence[str], seconds: float
) -> Outcome:
    fast = sparse(model, x)
    with torch.inference_mode():
        forwards, notes = _prepare(model, x, threads, engines)
        forwards[OURS] = fast
        outputs = {name: forward(x) for name, forward in forwards.items()}
        calls = {name: partial(forward, x) for name, forward in forwards.items()}
        times = samples(calls, seconds=seconds * len(calls))
    timing = Timing(
        len(x),
        threads,
        {name: round(1e3 * statistics.median(taken), 5) for name, taken in times.items()},
        _differences(outputs),
        (*(name for name in ENGINES if ENGINES[name].skips_zeros), OURS),
        {name: _quartiles(taken) for name, taken in times.items()},
    )
    return timing, choice_of(fast), notes


def _quartiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile in milliseconds; of one sample, itself twice."""
    if len(seconds) == 1:
        low = high = seconds[0]
    else:
        low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return round(1e3 * low, 5), round(1e3 * high, 5)


def _prepare(
    model: nn.Module, x: Tensor, threads: int, engines: Sequence[str]
) -> tuple[dict[str, Forward], list[str]]:
    """The forward pass of each engine that can run the model, and why the others cannot."""
    forwards: dict[str, Forward] = {}
    notes = []
    for name in engines:
        try:
            forwards[name] = ENGINES[name].prepare(model, x, threads=threads)
        except Exception as error:  # another package's error must not lose the rest of the table
            if name == BASELINE:
                raise
            text = " ".join(str(error).split())[:200]
            notes.append(f"{name} failed: {type(error).__name__}: {text}")
    return forwards, notes


def _differences(outputs: Mapping[str, Tensor]) -> dict[str, float]:
    """The largest difference from the baseline's outputs, relative to the largest of these."""
    expected = outputs[BASELINE]
    scale = float(expected.abs().max()) or 1.0
    return {
        name: float((output - expected).abs().max()) / scale
        for name, output in outputs.items()
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
