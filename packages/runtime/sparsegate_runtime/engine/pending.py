"""An operation of a plan while its memory is still being laid out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import network as n
from . import structures as c
from .structures import Kind
from .tensor import Buffer, Tensor


@dataclass(eq=False)
class Pending:
    """An operation whose buffers are known, but not yet where they lie."""

    kind: Kind | None
    """None for an operation that the caller runs."""
    make: Callable[[], c.Structure]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    extent: int = 0
    """Positions that steps may divide; 0 for operations that run whole."""
    reach: tuple[int, int] = (0, 0)
    """How far before and after a position it reads."""
    name: str = ""
    scratch: int = 0
    external: n.External | None = None
    tensors: tuple[Tensor, ...] = ()
    """What an operation of the caller reads."""
    ranges: tuple[tuple[int, int], ...] = ()
    """The positions that it computes, if it leaves those between them out."""
    work: float = 0.0
    """Floating-point operations that its kept weights need, borders of images not counted."""

    @property
    def kind_name(self) -> str:
        """The kind in words, such as `matrix vector`."""
        return "torch" if self.kind is None else self.kind.name.lower().replace("_", " ")

    @property
    def title(self) -> str:
        """The layer, or the kind where no layer is behind the operation."""
        return self.name or self.kind_name
