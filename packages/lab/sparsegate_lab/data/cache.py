"""Decodes photographs once, into a cache file that is mapped into memory."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import math
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from sparsegate_runtime.atomic import write_atomically

from .decoding import decode_all
from .photos import MISSING, PhotoSource, Storing

VERSION = 2  # of the cache's format; a new version decodes all photographs again
SHOWN = 5  # names of bad images in a message
WAIT_BEFORE_WARNING = 1.0  # seconds


@dataclass(frozen=True, eq=False)
class CachedPhotos:
    """The decoded photographs of a source, in its order."""

    images: UInt8[Tensor, "image 3 size size"]
    """Mapped into memory; pages that are not read take none."""
    kept: list[int]
    """The indices of these photographs in the source."""
    skipped: dict[str, str]
    """The names of photographs that did not decode, and the reasons."""


def load_or_decode(source: PhotoSource, storing: Storing) -> CachedPhotos:
    """All photographs as squares, decoded now or read from the cache.

    The source's key names the cache file, which exists complete or not at all. If several processes
    need it, one writes it and the others wait. An existing file is only read, so the folder may
    belong to another user.
    """
    folder = storing.cache or Path(
        os.environ.get("SPARSEGATE_CACHE") or Path.home() / ".cache" / "sparsegate"
    )
    settings = json.dumps([VERSION, storing.size, storing.bad_images])
    content = (settings + source.key()).encode(
        errors="surrogateescape"
    )  # a file name may be any bytes
    key = hashlib.blake2b(content, digest_size=12).hexdigest()
    about, squares, count = folder / f"{key}.json", folder / f"{key}.squares", len(source.labels())
    skipped = _found(about, squares, count)
    if skipped is None:
        with (
            _writing(folder),
            hold_lock(folder / f"{key}.lock", "decoding the same photographs") as lock,
        ):
            skipped = _found(about, squares, count)  # another process may have written it
            if skipped is None:
                _clear(folder, key)
                skipped = _make(source, storing, squares, lock)
                write_atomically(
                    about, json.dumps({str(index): why for index, why in skipped.items()}).encode()
                )
    kept = [index for index in range(count) if index not in skipped]
    images = _mapped(squares, (len(kept), 3, storing.size, storing.size))
    return CachedPhotos(images, kept, {source.name(index): why for index, why in skipped.items()})


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Explains what to do if the folder cannot be created or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ValueError(
            f"cannot write decoded photographs to {folder} ({error}); "
            "set SPARSEGATE_CACHE to another folder"
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


def _found(about: Path, squares: Path, count: int) -> dict[int, str] | None:
    """The photographs that were skipped last time, and why; None if there is no valid cache."""
    if not squares.exists():
        return None
    try:
        skipped = {int(index): str(why) for index, why in json.loads(about.read_bytes()).items()}
    except (FileNotFoundError, ValueError, AttributeError):  # missing, damaged, or not ours
        return None
    return skipped if all(0 <= index < count for index in skipped) else None


def _clear(folder: Path, key: str) -> None:
    """Removes partial files of processes that were killed; the caller holds the lock."""
    for partial in folder.glob(f".{key}.*.partial"):
        partial.unlink(missing_ok=True)


def _make(source: PhotoSource, storing: Storing, path: Path, lock: int) -> dict[int, str]:
    """Decodes every photograph into a file; returns those that did not decode, and why."""
    if importlib.util.find_spec("PIL") is None:
        raise ValueError(MISSING)
    count, row = len(source.labels()), 3 * storing.size**2
    _check_space(path.parent, count * row)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.truncate(count * row)
        skipped = decode_all(source, storing, partial, lock)
        _close_gaps(partial, skipped, count, row)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return skipped


def _close_gaps(path: Path, skipped: dict[int, str], count: int, row: int) -> None:
    """Closes the gaps of skipped photographs, and syncs the file to disk."""
    if skipped:
        mapped = np.memmap(path, np.uint8, "r+")
        rows = mapped.reshape(count, row)
        kept = [index for index in range(count) if index not in skipped]
        for new, old in enumerate(kept):
            rows[new] = rows[old]
        mapped.flush()
    with path.open("r+b") as file:
        file.truncate((count - len(skipped)) * row)
        os.fsync(file.fileno())


def _mapped(path: Path, shape: tuple[int, ...]) -> UInt8[Tensor, "..."]:
    if path.stat().st_size != math.prod(shape):
        raise ValueError(
            f"{path}: expected {math.prod(shape)} bytes, got {path.stat().st_size}; "
            "delete the file to decode the photographs again"
        )
    return torch.from_file(
        str(path), shared=False, size=math.prod(shape), dtype=torch.uint8
    ).reshape(shape)


def _check_space(folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if wanted > free:
        raise ValueError(
            f"the decoded images take {wanted / 1e9:.1f} GB, but {folder} has {free / 1e9:.1f} GB "
            "free; set SPARSEGATE_CACHE to a folder on another disk, or store smaller images: "
            "--stored-size"
        )


def describe_skipped(skipped: dict[str, str]) -> str:
    """A note that names the photographs that were skipped."""
    names = ", ".join(list(skipped)[:SHOWN]) + (" ..." if len(skipped) > SHOWN else "")
    count = (
        "1 image does not decode and was"
        if len(skipped) == 1
        else f"{len(skipped)} images do not decode and were"
    )
    return f"{count} left out: {names}"
