"""What every exporter takes and returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor, nn

from .normalise import Normalise


@dataclass(frozen=True)
class ExportResult:
    """The files that an export wrote, and how to use them."""

    files: tuple[Path, ...]
    num_bytes: int
    """Size of all files together."""
    num_weights: int
    """Weights that are not zero and that the files hold."""
    command: str
    """What to do next, such as the compiler's command."""
    flash: int | None = None
    """Bytes of weights and tables in the code, if it has tables."""
    ram: int | None = None
    """Bytes that the code works in, if it has tables."""


class Exporter(Protocol):
    """Writes a model to a file."""

    def __call__(
        self,
        model: nn.Module,
        path: str | Path,
        *,
        example: Tensor,
        max_weights: int,
        normalise: Normalise,
    ) -> ExportResult:
        """Writes the model; `normalise` turns the bytes of an image into the model's input."""
