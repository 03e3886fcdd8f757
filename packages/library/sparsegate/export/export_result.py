"""What an export has written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Written:
    """Files, and what to do with them."""

    files: tuple[Path, ...]
    num_bytes: int
    """Of all files."""
    num_weights: int
    """Surviving weights in them."""
    command: str
    """A command that makes use of them, such as a compiler's."""
