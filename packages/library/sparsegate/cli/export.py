"""`sparsegate export`: writes a network for programs without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparsegate.export import EXPORTS, MAX_WEIGHTS

from .arguments import Parser
from .source import known_model, open_source

ABOUT = (
    "Writes a network for programs without PyTorch: C code, an ONNX file with sparse weights, or "
    "an HTML page that runs it on what a person draws."
)


def main(argv: Sequence[str]) -> None:
    """Parses the arguments, writes the files, and prints their size and how to use them."""
    options = _parser().parse(argv)
    exporters = EXPORTS[options.to]
    if options.dtype not in exporters:
        raise ValueError(
            f"--to {options.to} writes {' or '.join(exporters)}, got --dtype {options.dtype}; "
            "leave --dtype out"
        )
    source = open_source(options.source, model=options.model, data=options.data)
    model = known_model(source, options.source)
    assert source.inputs is not None, "a source with a model has inputs"
    inputs = source.inputs()
    written = exporters[options.dtype](
        model,
        options.target,
        example=inputs.examples,
        max_weights=options.max_weights,
        normalise=inputs.normalise,
    )
    files = " and ".join(map(str, written.files))
    print(f"{files}: {written.num_bytes:,} bytes, {written.num_weights:,} weights")
    print(written.command)


def _parser() -> Parser:
    parser = Parser("export", ABOUT)
    parser.add_source()
    parser.add_argument(
        "target",
        type=Path,
        metavar="TARGET",
        help="the file to write: NAME.c, with NAME.h next to it, NAME.onnx, or NAME.html",
    )
    parser.add_argument("--to", required=True, metavar="{c,onnx,web}", help="what to write")
    parser.add_argument(
        "--dtype",
        choices=("fp32", "int8"),
        default="fp32",
        help="type of weights and activations; int8 is for processors without floating point and "
        "takes its scales from the data (default: %(default)s)",
    )
    parser.add_argument(
        "--max-weights",
        type=int,
        default=MAX_WEIGHTS,
        metavar="N",
        help="refuse networks with more nonzero weights: a compiler would take minutes, a page "
        "would draw slowly; ONNX files have no limit (default: %(default)s)",
    )
    parser.add_model()
    parser.add_argument(
        "--data",
        help="the data that the network was trained on, for normalisation and int8 scales "
        "(default: the run's own; mnist for a file without a run)",
    )
    return parser
