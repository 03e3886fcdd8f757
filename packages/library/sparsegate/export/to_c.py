"""`to_c`: writes a small network as a C file, with its weights as part of the code."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote

from torch import Tensor, nn

from sparsegate_runtime.atomic import write_atomically

from .c.code import MAX_WEIGHTS, Dtype, generate, identifier
from .exporter import ExportResult
from .normalise import UNIT_RANGE, Normalise

COMPILE = (
    "cc -std=c99 -O3 -march=native -ffp-contract=fast -DSPARSEGATE_MAIN -o {program} {source} -lm"
)
WRITTEN_BY = "Written by sparsegate"  # in the first line of a header


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
    path = Path(path)
    if path.suffix != ".c":
        raise ValueError(
            f"expected a path that ends in .c, got {path.name!r}; "
            f"write '{path.stem or 'network'}.c'"
        )
    header = path.with_suffix(".h")
    _check_header(header)
    code = generate(
        model,
        identifier(path.stem),
        example=example,
        dtype=dtype,
        max_weights=max_weights,
        normalise=normalise,
        header=header.name,
    )
    contents = {path: code.source, header: code.header}
    for file, text in contents.items():
        write_atomically(file, text.encode())
    hint = COMPILE.format(program=quote(str(path.with_suffix(""))), source=quote(str(path)))
    return ExportResult(
        tuple(contents),
        sum(len(text.encode()) for text in contents.values()),
        code.num_weights,
        hint,
    )


def _check_header(header: Path) -> None:
    if re.search(r'["\\\x00-\x1f]', header.name):  # would end the file name in #include "..."
        raise ValueError(
            f"expected a file name without quotes, backslashes and control characters, "
            f"got {header.stem!r}; choose another name"
        )
    if header.is_file() and WRITTEN_BY not in header.read_text(errors="replace")[:200]:
        raise ValueError(
            f"the header would be {header}, which exists and was not written by sparsegate; "
            "choose another name for the C file, or move the header"
        )
