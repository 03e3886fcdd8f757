"""`sparsegate bench`: times a network in every installed engine."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from sparsegate.bench import (
    ENGINES,
    NOISY,
    PLOT_ENDINGS,
    PLOT_MISSING,
    Given,
    Outcome,
    Speed,
    machine,
    plot_paths,
    plot_speed,
    speed_table,
    timings,
    versions,
)
from sparsegate.named_object import is_object_name
from sparsegate.runtime import Choice
from sparsegate.text_table import aligned

from .arguments import SOURCE, Parser
from .python_model import ABOUT as PYTHON
from .python_model import open_python
from .source import known_model, open_source

ABOUT = (
    "Times a network, dense and sparse: torch, the other inference engines that are installed, "
    "and sparsegate. Times are medians in milliseconds, with their quartiles."
)


def main(argv: Sequence[str]) -> None:
    """Parses the arguments, times the network and prints the tables."""
    options = _parser().parse(argv)
    _check(options)
    network = _opened(options)
    installed = [name for name in ENGINES if ENGINES[name].available()]
    engines = [name for name in installed if options.compile or name != "torch.compile"]
    missing = [name for name in ENGINES if name not in installed]
    notes = dict.fromkeys([f"not installed: {', '.join(missing)}"] if missing else [])
    found, choices = [], []
    for timing, choice, failed in _with_progress(_outcomes(network, options, engines)):
        found.append(timing)
        choices.append(choice)
        notes |= dict.fromkeys(failed)
    used = {ENGINES[name].package: str(ENGINES[name].version()) for name in engines}
    speed = Speed(
        network=network.name,
        command=shlex.join(["sparsegate", "bench", *argv]),
        machine=machine(),
        versions=versions("torch", "numpy") | used,
        timings=tuple(found),
        layers=tuple(asdict(choice) for choice in choices),
        notes=tuple(notes),
    )
    _show(speed, choices)
    if options.out is not None:
        _save(speed, options.out)


def _parser() -> Parser:
    parser = Parser("bench", ABOUT)
    parser.add_argument("path", metavar="PATH", help=f"{SOURCE}; or {PYTHON}")
    parser.add_model()
    parser.add_argument(
        "--batches",
        type=int,
        nargs="+",
        default=[1, 16, 64, 256],
        metavar="N",
        help="batch sizes (default: 1 16 64 256)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        nargs="+",
        default=[],
        metavar="N",
        help="numbers of threads (default: 1, 2, 4 and so on up to the number of cores)",
    )
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="time torch.compile too, which takes half a minute for each batch size",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=1.0,
        help="time for each engine at each batch size (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, help="file for the record (JSON); the plot goes next to it"
    )
    return parser


def _check(options: argparse.Namespace) -> None:
    if min(options.batches) < 1 or min(options.threads, default=1) < 1:
        raise ValueError(
            "batch sizes and numbers of threads are counted from 1, "
            f"got --batches {options.batches} --threads {options.threads}"
        )
    if not 0 < options.seconds < math.inf:
        raise ValueError(f"seconds is a time above zero, got --seconds {options.seconds}")
    if options.out is not None:
        _check_out(options.out, Path(options.path))


def _check_out(out: Path, path: Path) -> None:
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent} to write {out.name} to")
    if out.is_dir() or out.suffix in PLOT_ENDINGS:
        raise ValueError(
            "--out is a file for the record, such as speed.json, with the plot next to it; "
            f"got {out}"
        )
    if path.resolve() in (out.resolve(), *(plot.resolve() for plot in plot_paths(out))):
        raise ValueError(f"--out {out} would overwrite the network itself; choose another name")


@dataclass(frozen=True)
class _Network:
    """What is timed."""

    name: str
    model: nn.Module
    given: Sequence[int] | Given
    """The shape of one input, or a batch of inputs."""


def _opened(options: argparse.Namespace) -> _Network:
    if is_object_name(options.path):
        if options.model is not None:
            raise ValueError(f"--model names the model of a file; {options.path} gives its own")
        found = open_python(options.path)
        return _Network(found.name, found.model, found.given)
    path = Path(options.path)
    source = open_source(path, model=options.model)
    return _Network(source.name, known_model(source, path), source.input_shape)


def _outcomes(
    network: _Network, options: argparse.Namespace, engines: Sequence[str]
) -> Iterator[Outcome]:
    return timings(
        network.model,
        network.given,
        batches=options.batches,
        threads=options.threads or _powers(torch.get_num_threads()),
        engines=engines,
        seconds=options.seconds,
    )


def _with_progress(outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """The outcomes; a terminal shows a line about the last one."""
    for timing, choice, failed in outcomes:
        if sys.stderr.isatty():
            line = f"timed batch {timing.batch}, {timing.threads} threads"
            print(f"\r{line:40}", end="", file=sys.stderr, flush=True)
        yield timing, choice, failed
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)


def _powers(most: int) -> tuple[int, ...]:
    """1, 2, 4 and so on up to the given number, and that number.

    >>> _powers(6)
    (1, 2, 4, 6)
    """
    return (*(1 << power for power in range(most.bit_length()) if 1 << power < most), most)


def _show(speed: Speed, choices: Sequence[Choice]) -> None:
    """The table of engines, then the kernels that were chosen and why."""
    print(f"{speed.network}, medians in milliseconds (first to third quartile)")
    print(aligned(speed_table(speed)))
    if any(timing.is_noisy(name) for timing in speed.timings for name in timing.milliseconds):
        print(NOISY)
    for note in speed.notes:
        print(f"note: {note}")
    differences = [value for timing in speed.timings for value in timing.differences.values()]
    print(f"outputs agree to {max(differences, default=0.0):.1e} of the largest")
    for choice in choices:
        print("\n" + choice.table())


def _save(speed: Speed, out: Path) -> None:
    speed.save(out)
    plots = plot_speed(speed, out)
    print("\n" + ", ".join(map(str, [out, *plots])) + ("" if plots else f"; {PLOT_MISSING}"))
