"""The folder of cached files: locks, whole files, and errors that say what to do."""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

import torch
from torch import Tensor

WAIT_BEFORE_WARNING = 1.0  # seconds


def cache_folder(given: Path | None = None) -> Path:
    """The folder: the one given, $SPARSEGATE_CACHE, or ~/.cache/sparsegate."""
    named = os.environ.get("SPARSEGATE_CACHE")
    return given or Path(named or Path.home() / ".cache" / "sparsegate")


@contextmanager
def writing_to(folder: Path, what: str) -> Iterator[None]:
    """Explains what to do if the folder cannot be created or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ValueError(
            f"cannot write {what} to {folder} ({error}); set SPARSEGATE_CACHE to another folder"
        ) from error


@contextmanager
def hold_lock(path: Path, work: str) -> Iterator[int]:
    """Holds the lock of a file; waits for it, with a warning if that takes more than a second.

    Gives the file descriptor. A forked process inherits it, and holds the lock until it closes it.
    """
    with path.open("a") as lock:
        if not _taken_soon(lock):
            warnings.warn(
                f"another process is {work} and holds {path}; waiting for it", stacklevel=3
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


@contextmanager
def filling(folder: Path, key: str, what: str, work: str) -> Iterator[int]:
    """Holds the lock of a cached file, after what killed processes left of it is removed.

    Gives the file descriptor of the lock.

    Args:
        folder: The folder of the file; it is created.
        key: The file's name without its ending.
        what: What the file holds, for errors.
        work: What takes long, for those who wait.
    """
    with writing_to(folder, what), hold_lock(folder / f"{key}.lock", work) as lock:
        clear_partials(folder, key)
        yield lock


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives the name of a file to write, which takes the place of `path` when it is complete."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("r+b") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def clear_partials(folder: Path, key: str) -> None:
    """Removes partial files of processes that were killed; the caller holds the lock."""
    for partial in folder.glob(f".{key}.*.partial"):
        partial.unlink(missing_ok=True)


def check_space(folder: Path, wanted: int, what: str, or_else: str = "") -> None:
    """Raises if the folder has less free space than the bytes wanted."""
    free = shutil.disk_usage(folder).free
    if wanted > free:
        raise ValueError(
            f"{what} take {wanted / 1e9:.1f} GB, but {folder} has {free / 1e9:.1f} GB "
            f"free; set SPARSEGATE_CACHE to a folder on another disk{or_else}"
        )


def mapped(path: Path, shape: tuple[int, ...], dtype: torch.dtype, again: str) -> Tensor:
    """The content of a file as a tensor; pages that are not read take no memory.

    Args:
        path: The file.
        shape: The shape of the tensor, which decides the size of the file.
        dtype: The type of its elements.
        again: What happens again if the file is deleted, for the error of a wrong size.
    """
    size, wanted = path.stat().st_size, math.prod(shape) * dtype.itemsize
    if size != wanted:
        raise ValueError(
            f"{path}: expected {wanted} bytes, got {size}; delete the file to {again} again"
        )
    return torch.from_file(str(path), shared=False, size=math.prod(shape), dtype=dtype).reshape(
        shape
    )


def _taken_soon(lock: TextIOWrapper) -> bool:
    end = time.monotonic() + WAIT_BEFORE_WARNING
    while time.monotonic() < end:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False
