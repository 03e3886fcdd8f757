"""`sparsegate export`: writes a network for programs without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from sparsegate.export import EXPORTS, MAX_WEIGHTS, ExportResult
from sparsegate.runtime import to_web_page

from .arguments import SOURCE, Parser
from .python_model import ABOUT as PYTHON
from .python_model import is_python, open_python
from .source import Inputs, known_model, open_source

ABOUT = (
    "Writes a network for programs without PyTorch: C code, an ONNX file with sparse weights, or an "
    "HTML page that runs it on what a person draws, on pictures, or on numbers."
)


def main(argv: Sequence[str]) -> None:
    """Parses the arguments, writes the files, and prints their size and how to use them."""
    options = _parser().parse(argv)
    exporters = EXPORTS[options.to]
    if is_python(str(options.source)):
        _show(_page_of_python(options))
        return
    if options.dtype not in exporters:
        raise ValueError(
            f"--to {options.to} writes {' or '.join(exporters)}, got --dtype {options.dtype}; "
            "leave --dtype out"
        )
    source = open_source(options.source, model=options.model, data=options.data)
    model = known_model(source, options.source)
    assert source.inputs is not None, "a source with a model has inputs"
    inputs = source.inputs()
    try:
        written = exporters[options.dtype](
            model,
            options.target,
            example=inputs.examples,
            max_weights=options.max_weights,
            normalise=inputs.normalise,
        )
    except ValueError as why:
        if options.to != "web" or options.target.suffix != ".html":
            raise
        written = _page(model, options.target, inputs, why)
    _show(written)


def _show(written: ExportResult) -> None:
    files = " and ".join(map(str, written.files))
    print(f"{files}: {written.num_bytes:,} bytes, {written.num_weights:,} weights")
    print(written.command)


def _page(model: nn.Module, target: Path, inputs: Inputs, why: ValueError) -> ExportResult:
    """A page by the engine, for a network that the page with the drawing pad cannot run."""
    example = inputs.examples[:1]
    written = to_web_page(model, target, example=example, normalise=inputs.normalise)
    print(f"the page takes files in place of drawings: {why}")
    return written


def _page_of_python(options: Any) -> ExportResult:
    """The page of a model that a function of the user's makes."""
    if options.to != "web":
        raise ValueError(
            f"--to {options.to} takes a run's folder or a file of weights, got {options.source}; "
            f"in Python, call sparsegate.to_{options.to}(model, path, ...)"
        )
    opened = open_python(str(options.source))
    return to_web_page(opened.model, options.target, example=opened.given.example)


def _parser() -> Parser:
    parser = Parser("export", ABOUT)
    parser.add_argument(
        "source", type=Path, metavar="SOURCE", help=f"{SOURCE}; for --to web also {PYTHON}"
    )
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
