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
    """Makes a program image of a model, for inputs of the example's shapes.

    >>> image_of_model(nn.Linear(4, 2), torch.zeros(1, 4))[:7]
    b'SGIMAGE'

    Args:
        model: a model whose operations the engine all has.
        example: its inputs: a tensor, a tuple, or a dict of keyword arguments.
        instruction_set: the one that the image is planned for: plain, avx2, avx512, neon or
            wasm-simd. Every processor runs every image.

    Raises:
        UnplannedError: the model has operations that the engine does not have.
        ValueError: the model cannot be captured.

    """
    if instruction_set not in INSTRUCTION_SETS:
        raise ValueError(
            f"instruction_set must be one of {', '.join(INSTRUCTION_SETS)}, got {instruction_set!r}"
        )
    graph = capture(model, example)
    if graph.changed:
        raise ValueError(f"the model's forward changes {graph.changed[0]}; an image cannot do that")
    network, left = translated(graph)
    if left:
        counts = Counter(left)
        named = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
        raise UnplannedError(f"the engine cannot run {named}; replace it in the model")
    return image_of(Plan(network, variant=INSTRUCTION_SETS[instruction_set]))


def save_image(
    model: nn.Module, path: str | Path, example: Example, *, instruction_set: str = "plain"
) -> None:
    """Writes a model as a program image, for C and JavaScript.

    Args:
        model: a model whose operations the engine all has.
        path: the file, such as `network.sgi`.
        example: its inputs: a tensor, a tuple, or a dict of keyword arguments.
        instruction_set: the one that the image is planned for, such as `avx2`.

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
    """Writes a model as one HTML file that runs it offline, in WebAssembly.

    If the model takes pictures, they come from files or from the camera.

    Args:
        model: a model whose operations the engine all has.
        path: the page, `NAME.html`.
        example: its input. Of a batch of pictures, only the first counts.
        normalise: how the bytes of a picture become the input.
        show: what the outputs are: `classes`, `faces` (a detector with one anchor in each cell of a
            grid) or `numbers`. By default, one row of numbers for a picture means classes.
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
