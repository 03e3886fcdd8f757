"""Writes a model as a program image, or as a web page that runs it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch
from torch import nn

from sparsegate.export import ExportResult, Normalise
from sparsegate.graph import Example, capture
from sparsegate.web import EngineNetwork, Show, engine_document
from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.engine import INSTRUCTION_SETS, Plan, UnplannedError, image_of

from .translate import translated

UNIT_RANGE = Normalise(0.0, 255.0)
MOST_CLASSES = 100_000


def image_of_model(model: nn.Module, example: Example, *, instruction_set: str = "plain") -> bytes:
    """A model for inputs of the example's shapes as a program image.

    >>> image_of_model(nn.Linear(4, 2), torch.zeros(1, 4))[:7]
    b'SGIMAGE'

    Args:
        model: any model that the engine computes as a whole.
        example: its input; several as a tuple, by keyword as a dict.
        instruction_set: the processor that it is planned for: plain, avx2, avx512, neon or
            wasm-simd. Every processor runs every image.

    Raises:
        UnplannedError: the model has operations that the engine does not have.
        ValueError: the model cannot be captured.

    """
    if instruction_set not in INSTRUCTION_SETS:
        raise ValueError(
            f"an instruction set is one of {', '.join(INSTRUCTION_SETS)}, got {instruction_set!r}"
        )
    graph = capture(model, example)
    if graph.changed:
        raise ValueError(f"its forward changes {graph.changed[0]}, which an image cannot do")
    network, left = translated(graph)
    if left:
        counts = Counter(left)
        named = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
        raise UnplannedError(f"an image holds only operations of the engine, not: {named}")
    return image_of(Plan(network, variant=INSTRUCTION_SETS[instruction_set]))


def save_image(
    model: nn.Module, path: str | Path, example: Example, *, instruction_set: str = "plain"
) -> None:
    """Writes a model as a program image, for C and JavaScript.

    Args:
        model: any model that the engine computes as a whole.
        path: the file, such as `network.sgi`.
        example: its input; several as a tuple, by keyword as a dict.
        instruction_set: the processor that it is planned for.

    """
    write_atomically(Path(path), image_of_model(model, example, instruction_set=instruction_set))


def to_web_page(
    model: nn.Module,
    path: str | Path,
    *,
    example: Example,
    normalise: Normalise = UNIT_RANGE,
    show: Show | None = None,
    class_names: tuple[str, ...] = (),
) -> ExportResult:
    """Writes a model as one HTML file that runs it, offline, by the engine in WebAssembly.

    A model of pictures takes those that one drops on the page, and the camera's.

    Args:
        model: any model that the engine computes as a whole.
        path: the page, `NAME.html`.
        example: its input; of several pictures, the first is taken.
        normalise: how the bytes of a picture become the input.
        show: what the outputs are: `classes`, `faces` (a detector with one anchor in each cell of a
            grid) or `numbers`; by default, one row of numbers for a picture are classes.
        class_names: the names of the classes.

    """
    path = Path(path)
    if path.suffix != ".html":
        raise ValueError(
            f"expected a path that ends in .html, got {path.name!r}; "
            f"write '{path.stem or 'page'}.html'"
        )
    if _picture(example) is not None:
        example = example[:1]  # type: ignore[index]
    image = image_of_model(model, example, instruction_set="wasm-simd")
    network = EngineNetwork(
        image=image,
        picture=_picture(example),
        mean=_numbers(normalise.mean),
        spread=_numbers(normalise.spread),
        show=show or _shown(model, example),
        class_names=class_names,
    )
    kept = sum(int(torch.count_nonzero(one)) for one in model.state_dict().values())
    facts = f"{kept:,} weights, run by this page itself with WebAssembly."
    content = engine_document(network, path.stem, facts).encode()
    write_atomically(path, content)
    return ExportResult(
        (path,), len(content), kept, f"open {path} in a browser; it needs no network"
    )


def _picture(example: Example) -> tuple[int, int, int] | None:
    """The size of the picture that a model takes, if it takes one."""
    if not isinstance(example, torch.Tensor) or example.dtype != torch.float32:
        return None
    shape = tuple(example.shape)
    is_picture = len(shape) == 4 and shape[1] in (1, 3)
    return shape[1:] if is_picture else None  # type: ignore[return-value]


@torch.no_grad()
def _shown(model: nn.Module, example: Example) -> Show:
    if _picture(example) is None or not isinstance(example, torch.Tensor):
        return "numbers"
    result = model.eval()(example)
    is_row = isinstance(result, torch.Tensor) and result.ndim == 2 and result.shape[0] == 1
    return "classes" if is_row and 2 <= result.shape[1] <= MOST_CLASSES else "numbers"


def _numbers(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)
