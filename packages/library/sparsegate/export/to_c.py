"""`to_c`: a small network as a C file with its weights and their positions written into the code."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from torch import Tensor, nn

from sparsegate_runtime.atomic import write_atomically

from .code import BYTES, MAX_WEIGHTS, Dtype, generate, identifier
from .export_result import Written
from .normalise import Normalise

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
    normalise: Normalise = BYTES,
) -> Written:
    """Writes a small network as one C file, with a header beside it, and says what was written.

    >>> import tempfile, torch
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = to_c(model, Path(folder) / "tiny.c", example=torch.zeros(1, 4))
    >>> [file.name for file in written.files], written.num_weights
    (['tiny.c', 'tiny.h'], 18)

    `example` is a batch of images; int8 takes its steps from it, so pass some hundred typical ones. The code computes
    what the model computes in eval. `normalise` is what its `main` makes of images in bytes.
    """
    path = Path(path)
    if path.suffix != ".c":
        raise ValueError(
            f"a C file ends in .c, got {path.name!r}; write '{path.stem or 'network'}.c'"
        )
    name = identifier(path.stem)
    code = generate(
        model, name, example=example, dtype=dtype, max_weights=max_weights, normalise=normalise
    )
    contents = {path: code.source, path.with_name(f"{name}.h"): code.header}
    for file, text in contents.items():
        write_atomically(file, text.encode())
    hint = COMPILE.format(program=quote(str(path.with_suffix(""))), source=quote(str(path)))
    return Written(
        tuple(contents),
        sum(len(text.encode()) for text in contents.values()),
        code.num_weights,
        hint,
    )
