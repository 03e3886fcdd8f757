"""Networks for other programs, by name of what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from torch import Tensor, nn

from sparsegate_runtime.registry import Registry

from .browser import for_browser
from .build import build, find_compiler
from .code import MAX_WEIGHTS, Code, Dtype, generate
from .export_result import Written
from .hardwired import HardWired, hard_wire
from .normalise import Normalise
from .to_c import to_c
from .to_web import to_web


class Exporter(Protocol):
    """Writes a model to a path and says what was written."""

    def __call__(
        self,
        model: nn.Module,
        path: str | Path,
        *,
        example: Tensor,
        dtype: Dtype,
        max_weights: int,
        normalise: Normalise,
    ) -> Written:
        """The files and what to do with them."""


EXPORTS: Registry[Exporter] = Registry("export", {"c": to_c, "web": to_web})

__all__ = [
    "EXPORTS",
    "MAX_WEIGHTS",
    "Code",
    "Dtype",
    "Exporter",
    "HardWired",
    "Normalise",
    "Written",
    "build",
    "find_compiler",
    "for_browser",
    "generate",
    "hard_wire",
    "to_c",
    "to_web",
]
