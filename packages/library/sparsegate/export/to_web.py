"""`to_web`: a small network as one HTML file that runs it on what a person draws."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from sparsegate.web import try_it_document
from sparsegate_runtime.atomic import write_atomically

from .browser import for_browser
from .code import BYTES, MAX_WEIGHTS, Dtype
from .export_result import Written
from .normalise import Normalise


def to_web(
    model: nn.Module,
    path: str | Path,
    *,
    example: Tensor,
    dtype: Dtype = "fp32",
    max_weights: int = MAX_WEIGHTS,
    normalise: Normalise = BYTES,
) -> Written:
    """Writes a small network as one HTML file, and says what was written.

    >>> import tempfile, torch
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(16, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = to_web(model, Path(folder) / "tiny.html", example=torch.zeros(1, 1, 4, 4))
    >>> [file.name for file in written.files], written.num_weights
    (['tiny.html'], 160)

    `example` is a batch of images; one of each answer is in the page, to try. `normalise` is what the page makes of
    the bytes of an image.
    """
    path = Path(path)
    if path.suffix != ".html":
        raise ValueError(
            f"a page ends in .html, got {path.name!r}; write '{path.stem or 'page'}.html'"
        )
    if dtype != "fp32":
        raise ValueError(f"a page runs fp32, got {dtype}; leave dtype out")
    network = for_browser(model, example=example, max_weights=max_weights, normalise=normalise)
    content = try_it_document(network, path.stem).encode()
    write_atomically(path, content)
    return Written(
        (path,), len(content), network.num_weights, f"open {path} in a browser; it needs no network"
    )
