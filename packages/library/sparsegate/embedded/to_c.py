"""`to_c`: writes a network as C, with its weights as code or as tables, whichever suits it."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Literal, TypeAlias

from torch import Tensor, nn

from sparsegate.export import (
    MAX_WEIGHTS,
    UNIT_RANGE,
    CFiles,
    Dtype,
    ExportResult,
    Normalise,
    identifier,
)
from sparsegate.export import to_c as to_c_code
from sparsegate.graph import Example

from .code import Tables, tables
from .fuse import fused
from .int8 import quantised
from .nodes import Prepared
from .read import read, split

Form: TypeAlias = Literal["code", "tables"]
COMPILE = "cc -std=c99 -O2 -c -o {program}.o {source}"


def to_c(
    model: nn.Module,
    path: str | Path,
    *,
    example: Example,
    dtype: Dtype = "fp32",
    form: Form | None = None,
    calibrate: Example | None = None,
    max_weights: int | None = None,
    normalise: Normalise = UNIT_RANGE,
) -> ExportResult:
    """Writes a network as one C file, and its header next to it.

    >>> import tempfile, torch
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = to_c(model, Path(folder) / "tiny.c", example=torch.zeros(1, 4), form="tables")
    >>> [file.name for file in written.files], written.num_weights, written.ram
    (['tiny.c', 'tiny.h'], 18, 12)

    Args:
        model: the code computes what it computes in eval mode, for one input at a time.
        path: the C file, `NAME.c`; the header becomes `NAME.h` in the same folder.
        example: a batch of inputs: a tensor, a tuple of tensors, or a dict by keyword.
        dtype: "fp32" or "int8".
        form: "code" makes every weight a part of the code: fastest on a desktop processor, for
            small chains of layers. "tables" stores weights in tables, which take the least memory,
            for any network. By default chains of at most 25,000 weights become code.
        calibrate: inputs by which int8 chooses its scales, some hundred; the example if None.
        max_weights: refuse a model with more weights that are not zero; with "code" at most 25,000
            if None.
        normalise: what the program in the file does with the bytes of an image ("code" only).

    Raises:
        ValueError: an operation cannot be written as C (the error names it), or the header exists
            and sparsegate did not write it.

    """
    if form not in (None, "code", "tables"):
        raise ValueError(f"form: expected 'code' or 'tables', got {form!r}")
    if dtype not in ("fp32", "int8"):
        raise ValueError(f"dtype: expected 'fp32' or 'int8', got {dtype!r}")
    if max_weights is not None and max_weights < 1:
        raise ValueError(f"max_weights is a number of weights, at least 1, got {max_weights}")
    files = CFiles.at(path)
    typical = example if calibrate is None else calibrate
    if form != "tables":
        try:
            return _as_code(model, path, typical, dtype, max_weights or MAX_WEIGHTS, normalise)
        except ValueError:
            if form == "code":
                raise
    made = _as_tables(model, files, example, calibrate, dtype)
    if max_weights is not None and made.num_weights > max_weights:
        raise ValueError(
            f"expected at most {max_weights:,} weights that are not zero, got "
            f"{made.num_weights:,}; prune further, or raise max_weights"
        )
    return _written(files, made)


def _as_code(
    model: nn.Module,
    path: str | Path,
    example: Example,
    dtype: Dtype,
    max_weights: int,
    normalise: Normalise,
) -> ExportResult:
    if not isinstance(example, Tensor):
        raise ValueError(f"example: expected a tensor, got {type(example).__name__}")
    return to_c_code(
        model, path, example=example, dtype=dtype, max_weights=max_weights, normalise=normalise
    )


def _as_tables(
    model: nn.Module, files: CFiles, example: Example, calibrate: Example | None, dtype: Dtype
) -> Tables:
    source = read(model, example)
    network = fused(source.network)
    if dtype == "fp32":
        prepared = Prepared(network)
    else:
        inputs = source.examples if calibrate is None else split(calibrate)
        prepared = quantised(network, inputs)
    return tables(prepared, identifier(files.source.stem), header=files.header.name)


def _written(files: CFiles, made: Tables) -> ExportResult:
    num_bytes = files.write(made.source, made.header)
    name = str(files.source)
    hint = COMPILE.format(program=quote(name.removesuffix(".c")), source=quote(name))
    return ExportResult(
        (files.source, files.header),
        num_bytes,
        made.num_weights,
        hint,
        flash=made.flash,
        ram=made.ram,
    )
