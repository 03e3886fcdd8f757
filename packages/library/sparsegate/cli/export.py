"""`sparsegate export`: writes a network for programs without PyTorch."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparsegate.embedded import to_c
from sparsegate.export import MAX_WEIGHTS, Dtype, Exporter, ExportResult, export_onnx, to_web
from sparsegate.named_object import is_object_name
from sparsegate.runtime import to_web_page
from sparsegate_runtime.registry import Registry

from .arguments import SOURCE, Parser
from .python_model import ABOUT as PYTHON
from .python_model import open_python
from .source import ExampleInputs, known_model, open_source

ABOUT = (
    "Writes a network for programs without PyTorch: C code, an ONNX file with sparse weights, or "
    "an HTML page that runs it on drawings, pictures or numbers."
)

EXPORTS: Registry[Mapping[Dtype, Exporter]] = Registry(
    "export",
    {
        "c": {"fp32": partial(to_c, dtype="fp32"), "int8": partial(to_c, dtype="int8")},
        "onnx": {"fp32": export_onnx},
        "web": {"fp32": to_web},
    },
)
"""The exporters, by what they write and its data type."""


def main(argv: Sequence[str]) -> None:
    """Parses the arguments, writes the files, and prints their size and how to use them."""
    options = _parser().parse(argv)
    exporters = EXPORTS[options.to]
    if is_object_name(str(options.source)):
        _show(_of_python(options))
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
    settings = _settings(options)
    try:
        written = exporters[options.dtype](
            model, options.target, example=inputs.examples, normalise=inputs.normalise, **settings
        )
    except ValueError as why:
        if options.to != "web" or options.target.suffix != ".html":
            raise
        written = _page(model, options.target, inputs, why)
    _show(written)


def _show(written: ExportResult) -> None:
    files = " and ".join(map(str, written.files))
    print(f"{files}: {written.num_bytes:,} bytes, {written.num_weights:,} weights")
    if written.flash is not None:
        print(f"flash: {written.flash:,} bytes and the code; RAM: {written.ram:,} bytes")
    print(written.command)


def _page(model: nn.Module, target: Path, inputs: ExampleInputs, why: ValueError) -> ExportResult:
    """A page by the engine, for a network that the page with the drawing pad cannot run."""
    example = inputs.examples[:1]
    written = to_web_page(model, target, example=example, normalise=inputs.normalise)
    print(f"the page takes files, not drawings: {why}")
    return written


def _of_python(options: argparse.Namespace) -> ExportResult:
    """The page or C code of a model that a function of the user's makes."""
    if options.to not in ("c", "web"):
        raise ValueError(
            f"--to {options.to} takes a run's folder or a file of weights, got {options.source}; "
            f"in Python, call sparsegate.to_{options.to}(model, path, ...)"
        )
    settings = _settings(options)
    opened = open_python(str(options.source))
    example = opened.given.example
    if options.to == "c":
        return to_c(opened.model, options.target, example=example, dtype=options.dtype, **settings)
    return to_web_page(opened.model, options.target, example=example)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options of the exporter; those that only C code has, if they were given."""
    given: dict[str, Any] = {}
    if options.form is not None:
        given["form"] = options.form
    if options.calibrate is not None:
        given["calibrate"] = _loaded(options.calibrate)
    if given and options.to != "c":
        raise ValueError(
            f"--{next(iter(given))} is for --to c, got --to {options.to}; leave it out"
        )
    if options.calibrate is not None and options.dtype != "int8":
        raise ValueError("--calibrate chooses the scales of --dtype int8; add --dtype int8")
    if options.max_weights is not None or options.to != "c":
        given["max_weights"] = MAX_WEIGHTS if options.max_weights is None else options.max_weights
    return given


def _loaded(path: Path) -> Tensor:
    """The inputs in a file of numpy."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"--calibrate {path}: expected a file that numpy.save wrote, with inputs as the "
            f"network takes them, one after the other ({error})"
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise ValueError(f"--calibrate {path}: expected one array of numbers")
    return torch.from_numpy(np.ascontiguousarray(array, np.float32))


def _parser() -> Parser:
    parser = Parser("export", ABOUT)
    parser.add_argument(
        "source",
        type=Path,
        metavar="SOURCE",
        help=f"{SOURCE}; for --to c and --to web also {PYTHON}",
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
        "--form",
        choices=("code", "tables"),
        help="with --to c: weights as code (fastest on a desktop processor, for small chains of "
        "layers) or in tables (least memory, for any network; default: code where it can be)",
    )
    parser.add_argument(
        "--calibrate",
        type=Path,
        metavar="FILE.npy",
        help="with --dtype int8: typical inputs, by which the scales are chosen "
        "(default: some hundred inputs of --data)",
    )
    parser.add_argument(
        "--max-weights",
        type=int,
        metavar="N",
        help="refuse networks with more nonzero weights; ONNX files have no limit "
        f"(default: {MAX_WEIGHTS} for pages and weights as code, no limit for tables)",
    )
    parser.add_model()
    parser.add_argument(
        "--data",
        help="the data that the network was trained on, for normalization and int8 scales "
        "(default: the run's own; mnist for a file without a run)",
    )
    return parser
