"""Times a network in every available engine and in ours, interleaved."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from sparsegate.runtime import Choice, choice_of, samples, sparse

from .engines import ENGINES, Forward
from .given import Flat, Given
from .record import BASELINE, OURS, Timing

Outcome = tuple[Timing, Choice, list[str]]


def timings(
    model: nn.Module,
    given: Sequence[int] | Given,
    *,
    batches: Sequence[int],
    threads: Sequence[int],
    engines: Sequence[str],
    seconds: float = 1.0,
) -> Iterator[Outcome]:
    """Yields a timing for each number of threads and batch size as soon as it is measured.

    All engines get the same inputs, and their first outputs are compared.

    Args:
        model: The network; it is put into eval mode.
        given: Inputs of the model; or the shape of one input, without the batch dimension, for
            random ones.
        batches: Batch sizes.
        threads: Numbers of threads.
        engines: Names in `ENGINES` to compare with; the first must be the baseline.
        seconds: Time to spend on each engine for each batch size.

    Yields:
        The timing, the kernels that `sparse` chose, and notes about engines that failed.

    """
    model = model.eval()
    given = given if isinstance(given, Given) else Given(_random(max(batches), given))
    for num_threads in threads:
        for batch in batches:
            with _threads(num_threads):
                outcome = _measure(model, given.of_size(batch), num_threads, engines, seconds)
            yield outcome


def _measure(
    model: nn.Module, given: Given, threads: int, engines: Sequence[str], seconds: float
) -> Outcome:
    fast = sparse(model, given.example)
    with torch.inference_mode():
        forwards, notes = _prepare(model, given, threads, engines)
        forwards[OURS] = given.call(fast)
        outputs, failed = _outputs(forwards, given)
        calls = {name: partial(forwards[name], *given.tensors) for name in outputs}
        times = samples(calls, seconds=seconds * len(calls))
    timing = Timing(
        given.batch,
        threads,
        {name: round(1e3 * statistics.median(taken), 5) for name, taken in times.items()},
        _differences(outputs),
        (*(name for name in ENGINES if ENGINES[name].skips_zeros), OURS),
        {name: _quartiles(taken) for name, taken in times.items()},
    )
    return timing, replace(choice_of(fast), batch=given.batch), notes + failed


def _outputs(forwards: Mapping[str, Forward], given: Given) -> tuple[dict[str, Tensor], list[str]]:
    """What each engine gives, and why some cannot."""
    found: dict[str, Tensor] = {}
    notes = []
    for name, forward in forwards.items():
        try:
            found[name] = forward(*given.tensors).clone()
        except Exception as error:
            if name in (BASELINE, OURS):
                raise
            notes.append(_failure(name, error))
    return found, notes


def _failure(name: str, error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return f"{name} failed: {type(error).__name__}: {text}"


def _quartiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile in milliseconds; of one sample, itself twice."""
    if len(seconds) == 1:
        low = high = seconds[0]
    else:
        low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return round(1e3 * low, 5), round(1e3 * high, 5)


def _prepare(
    model: nn.Module, given: Given, threads: int, engines: Sequence[str]
) -> tuple[dict[str, Forward], list[str]]:
    """The forward pass of each engine that can run the model, and why the others cannot."""
    forwards: dict[str, Forward] = {}
    notes = []
    flat = Flat(model, given)
    for name in engines:
        try:
            if name == BASELINE:
                forwards[name] = given.call(model)
            else:
                forwards[name] = ENGINES[name].prepare(flat, *given.tensors, threads=threads)
        except Exception as error:  # another package's error must not lose the rest of the table
            if name == BASELINE:
                raise
            notes.append(_failure(name, error))
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
