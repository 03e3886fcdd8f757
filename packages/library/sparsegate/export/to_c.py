"""Writes a small network as a C file, with its weights as part of the code."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from torch import Tensor, nn

from .c.code import MAX_WEIGHTS, Dtype, generate, identifier
from .c_files import CFiles
from .exporter import ExportResult
from .normalise import UNIT_RANGE, Normalise

COMPILE = (
    "cc -std=c99 -O3 -march=native -ffp-contract=fast -DSPARSEGATE_MAIN -o {program} {source} -lm"
)


def to_c(
    model: nn.Module,
    path: str | Path,
    *,
    example: Tensor,
    dtype: Dtype = "fp32",
    max_weights: int = MAX_WEIGHTS,
    normalise: Normalise = UNIT_RANGE,
) -> ExportResult:
    """Writes a small network as one C file, and its header next to it.

    >>> import tempfile, torch
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = to_c(model, Path(folder) / "tiny.c", example=torch.zeros(1, 4))
    >>> [file.name for file in written.files], written.num_weights
    (['tiny.c', 'tiny.h'], 18)

    Args:
        model: a chain of layers; the code computes what it computes in eval mode.
        path: the C file, `NAME.c`; the header becomes `NAME.h` in the same folder.
        example: a batch of inputs. int8 chooses its scales by it: pass some hundred inputs.
        dtype: "fp32" or "int8".
        max_weights: refuse a model with more weights that are not zero.
        normalise: what the program in the file does with the bytes of an image.

    Raises ValueError if the header exists and sparsegate did not write it.

    """
    files = CFiles.at(path)
    code = generate(
        model,
        identifier(files.source.stem),
        example=example,
        dtype=dtype,
        max_weights=max_weights,
        normalise=normalise,
        header=files.header.name,
    )
    num_bytes = files.write(code.source, code.header)
    name = str(files.source)
    hint = COMPILE.format(program=quote(name.removesuffix(".c")), source=quote(name))
    return ExportResult((files.source, files.header), num_bytes, code.num_weights, hint)
