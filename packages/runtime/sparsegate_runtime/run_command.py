"""The command `sparsegate-run`: runs a network file on arrays, without PyTorch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .atomic import write_atomically
from .engine import INSTRUCTION_SETS
from .network_file import Network, table

ABOUT = "Runs a network file (.sgn) on numpy arrays. Without --input it shows the network."


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns the exit code: 0, or 2 for input that cannot be used."""
    parser = argparse.ArgumentParser("sparsegate-run", description=ABOUT)
    parser.add_argument("network", type=Path, help="the network, a file such as net.sgn")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE.npy",
        help="an array for an input; repeat the option for each input, in order or by name",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.npy",
        help="the file for the output; FILE.npz holds several outputs by name",
    )
    parser.add_argument(
        "--threads", type=int, help="number of threads (default: OMP_NUM_THREADS, or all cores)"
    )
    parser.add_argument(
        "--image", type=Path, metavar="FILE.sgi", help="write a program image for C programs"
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="a size of the image's inputs, such as batch=1; repeat the option for each size "
        "(default: the size when the network was saved)",
    )
    parser.add_argument(
        "--instructions",
        choices=list(INSTRUCTION_SETS),
        help="the instruction set that the image is planned for (default: this machine's)",
    )
    options = parser.parse_args(argv)
    try:
        print(_run(options))
    except (ValueError, OSError) as error:
        print(f"sparsegate-run: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> str:
    """What the command prints."""
    if options.threads is not None and options.threads < 1:
        raise ValueError(f"--threads must be at least 1, got {options.threads}")
    network = Network.load(options.network)
    if options.image is not None:
        if options.input or options.output is not None:
            raise ValueError("--image does not run the network; leave out --input and --output")
        return _write_image(network, options)
    if options.size or options.instructions is not None:
        raise ValueError("--size and --instructions are options of --image; pass --image FILE.sgi")
    if not options.input:
        if options.output is not None:
            raise ValueError("--output needs --input: pass every input of the network")
        return table(network)
    network.threads = options.threads
    given, named = _inputs(options.input, [info.name for info in network.inputs])
    found = network(*given, **named)
    outputs = found if isinstance(found, tuple) else (found,)
    names = [info.name for info in network.outputs]
    if options.output is not None:
        _write(options.output, dict(zip(names, outputs, strict=True)))
    return "\n".join(_summary(*pair) for pair in zip(names, outputs, strict=True))


def _write_image(network: Network, options: argparse.Namespace) -> str:
    """Writes a program image; returns what the command prints."""
    sizes = {}
    for word in options.size:
        name, _, number = word.partition("=")
        if not number.isdecimal():
            raise ValueError(f"--size takes NAME=NUMBER, such as batch=1, got {word!r}")
        sizes[name] = int(number)
    image = network.image(options.instructions, **sizes)
    write_atomically(options.image, image)
    return f"{options.image}: {len(image):,} bytes"


def _inputs(words: Sequence[str], names: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """The arrays in order, and those by name."""
    given, named = [], {}
    for word in words:
        name, equals, path = word.partition("=")
        if equals and name in names:
            if name in named:
                raise ValueError(f"pass the input {name} once")
            named[name] = _array(path)
        else:
            given.append(_array(word))
    return given, named


def _array(path: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{path} must be an array saved by numpy.save, without pickled objects: {error}"
        ) from error


def _write(path: Path, outputs: dict[str, Any]) -> None:
    import io

    room = io.BytesIO()
    if path.suffix == ".npz":
        np.savez(room, **outputs)
    elif len(outputs) == 1:
        np.save(room, next(iter(outputs.values())))
    else:
        raise ValueError(f"{path} can hold one output, got {len(outputs)}; write to an .npz file")
    write_atomically(path, room.getvalue())


def _summary(name: str, array: Any) -> str:
    """The shape of an output, and its values or their range."""
    shape = ", ".join(map(str, array.shape))
    if array.size <= 16:
        values = " ".join(f"{value:.6g}" for value in array.reshape(-1))
        return f"{name} [{shape}]: {values}"
    return f"{name} [{shape}]: {array.min():.6g} to {array.max():.6g}, mean {array.mean():.6g}"
