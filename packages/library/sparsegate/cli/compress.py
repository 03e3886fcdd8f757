"""`sparsegate compress`: writes a network to the smallest file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from sparsegate.convert import convert_onnx, convert_tflite
from sparsegate.files import Packed, compress

from .arguments import Parser
from .savings import quantised
from .source import Source, open_source

ABOUT = (
    "Writes a network with zeros to a file that is truly smaller. The file is lossless unless you "
    "pass --bits."
)

CONVERTERS = {".onnx": convert_onnx, ".tflite": convert_tflite}


def main(argv: Sequence[str]) -> None:
    """Parses the arguments, writes the file, and prints its size and what was lost."""
    options = _parser().parse(argv)
    _check(options)
    if options.target.suffix == ".sgn":
        _convert(options)
        return
    source = open_source(options.source)
    packed = source.packed
    if options.bits is not None:
        packed, report = _quantised(source, options)
        print(report)
    packed.save(options.target)
    size = options.target.stat().st_size
    dense = sum(entry.num_bytes for entry in packed.entries.values())
    ratio = f"{dense / max(1, size):.1f} times smaller than dense ({dense:,})"
    print(f"{options.target}: {size:,} bytes, {ratio}")


def _convert(options: argparse.Namespace) -> None:
    """Writes the network of an ONNX or TensorFlow Lite file with its operations."""
    if options.source.suffix not in CONVERTERS:
        raise ValueError(
            f"a network file (.sgn) holds operations, which are read from .onnx and .tflite files, "
            f"got {options.source.name!r}; write NAME.sg, or call "
            "sparsegate.save_network(model, ...)"
        )
    if options.bits is not None:
        raise ValueError("--bits is for NAME.sg; leave it out for a network file (.sgn)")
    if not options.source.is_file():
        raise ValueError(f"there is no file {options.source}")
    made = CONVERTERS[options.source.suffix](options.source, options.target)
    given = f"{options.source.name} has {options.source.stat().st_size:,}"
    print(f"{options.target}: {made.num_bytes:,} bytes, {made.num_operations} operations; {given}")


def _parser() -> Parser:
    parser = Parser("compress", ABOUT)
    parser.add_source()
    parser.add_argument(
        "target",
        type=Path,
        metavar="TARGET",
        help="the file to write: NAME.sparse.safetensors, which any safetensors reader opens, "
        "NAME.sg, which is smaller, or, from a .onnx or .tflite file, NAME.sgn, which runs without "
        "PyTorch",
    )
    parser.add_argument(
        "--bits",
        type=int,
        help="round the kept weights to at most 2^BITS values, with BITS from 2 to 8 "
        "(default: lossless)",
    )
    parser.add_argument(
        "--per",
        choices=("network", "layer"),
        default="network",
        help="with --bits: choose the values for the whole network or for each layer "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--tune",
        type=int,
        default=0,
        metavar="EPOCHS",
        help="with --bits and the folder of a run: train the values for this many epochs on the "
        "run's data (default: %(default)s)",
    )
    return parser


def _check(options: argparse.Namespace) -> None:
    if options.tune < 0:
        raise ValueError(f"--tune is a number of epochs, 0 or more, got {options.tune}")
    if options.tune and options.bits is None:
        raise ValueError(f"--tune {options.tune} trains the values of --bits; add --bits")


def _quantised(source: Source, options: argparse.Namespace) -> tuple[Packed, str]:
    """The network with few values, and its accuracy before and after."""
    if options.tune and source.check is None:
        raise ValueError(
            f"--tune needs the data of a run, and {options.source} is not the folder of a run"
        )
    state = source.packed.state_dict()
    rounded = quantised(state, options.bits, per=options.per)
    if source.check is None:
        unknown = "accuracy unknown: the source is not the folder of a run"
        return compress(rounded), f"{options.bits} bits: {unknown}"
    check = source.check()
    report = f"before {check.accuracies(state)}; after {check.accuracies(rounded)}"
    if options.tune:
        rounded = check.tuned(rounded, options.tune, per=options.per, origin=state)
        report += f"; tuned {check.accuracies(rounded)}"
    return compress(rounded), f"{options.bits} bits: {report}"
