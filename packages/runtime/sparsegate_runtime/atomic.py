"""Writes files whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from typing_extensions import Buffer


def write_atomically(path: Path, *content: Buffer) -> None:
    """Replaces a file by new content in one step: a kill or a full disk leaves the old file, or none, never a part."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
