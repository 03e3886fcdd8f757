"""Photographs decoded once, into a file of bytes that is mapped into memory."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from sparsegate_runtime.atomic import write_atomically

from .decoding import decode_all
from .file_lock import alone
from .photos import MISSING, Source, Storing

VERSION = 2  # of how squares are made and laid out; another one makes them anew
SHOWN = 5  # names of bad images in a message


@dataclass(frozen=True, eq=False)
class Stored:
    """Squares of photographs, in their order."""

    images: UInt8[Tensor, "image 3 size size"]
    """In a file that is mapped into memory; what is not looked at takes none."""
    kept: list[int]
    """Which photographs these are."""
    skipped: dict[str, str]
    """The name of each that did not decode, and why."""


def stored(source: Source, storing: Storing) -> Stored:
    """The squares of all photographs, decoded now or found from last time.

    The file is keyed by what the source says of its content. It is there whole or not at all, and of several processes
    that want it one makes it and the others wait. Where it is there, nothing is written, so others may own the folder.
    """
    folder = storing.cache or Path(
        os.environ.get("SPARSEGATE_CACHE") or Path.home() / ".cache" / "sparsegate"
    )
    settings = json.dumps([VERSION, storing.size, storing.bad_images])
    content = (settings + source.key()).encode(
        errors="surrogateescape"
    )  # a file's name may be any bytes
    key = hashlib.blake2b(content, digest_size=12).hexdigest()
    about, squares, count = folder / f"{key}.json", folder / f"{key}.squares", len(source.labels())
    skipped = _found(about, squares, count)
    if skipped is None:
        with (
            _writing(folder),
            alone(folder / f"{key}.lock", "decoding the same photographs") as lock,
        ):
            skipped = _found(about, squares, count)  # by another process, while this one waited
            if skipped is None:
                _clear(folder, key)
                skipped = _make(source, storing, squares, lock)
                write_atomically(
                    about, json.dumps({str(place): why for place, why in skipped.items()}).encode()
                )
    kept = [place for place in range(count) if place not in skipped]
    images = _mapped(squares, (len(kept), 3, storing.size, storing.size))
    return Stored(images, kept, {source.name(place): why for place, why in skipped.items()})


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Says what to do if a folder cannot be made or written to; errors of photographs are no such errors."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ValueError(
            f"decoded photographs cannot be written to {folder} ({error}); set SPARSEGATE_CACHE to another folder"
        ) from error


def _found(about: Path, squares: Path, count: int) -> dict[int, str] | None:
    """Which photographs were skipped last time, and why; none if that is not known, and all is to be made anew."""
    if not squares.exists():
        return None
    try:
        skipped = {int(place): str(why) for place, why in json.loads(about.read_bytes()).items()}
    except (
        FileNotFoundError,
        ValueError,
        AttributeError,
    ):  # no file, a damaged one, or one of something else
        return None
    return skipped if all(0 <= place < count for place in skipped) else None


def _clear(folder: Path, key: str) -> None:
    """Removes what processes that were killed had begun; none that lives is at work, as the lock is ours."""
    for partial in folder.glob(f".{key}.*.partial"):
        partial.unlink(missing_ok=True)


def _make(source: Source, storing: Storing, path: Path, lock: int) -> dict[int, str]:
    """Decodes every photograph into a file; returns which did not decode, and why."""
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
    """Moves squares to where skipped ones would be, and brings all to the disk."""
    if skipped:
        mapped = np.memmap(path, np.uint8, "r+")
        rows = mapped.reshape(count, row)
        kept = [place for place in range(count) if place not in skipped]
        for new, old in enumerate(kept):
            rows[new] = rows[old]
        mapped.flush()
    with path.open("r+b") as file:
        file.truncate((count - len(skipped)) * row)
        os.fsync(file.fileno())


def _mapped(path: Path, shape: tuple[int, ...]) -> UInt8[Tensor, "..."]:
    if path.stat().st_size != math.prod(shape):
        raise ValueError(
            f"{path} has {path.stat().st_size} bytes, wanted {math.prod(shape)}; delete it to make it anew"
        )
    return torch.from_file(
        str(path), shared=False, size=math.prod(shape), dtype=torch.uint8
    ).reshape(shape)


def _check_space(folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if wanted > free:
        raise ValueError(
            f"the decoded images take {wanted / 1e9:.1f} GB, and {folder} has {free / 1e9:.1f} GB free; "
            "set SPARSEGATE_CACHE to a folder on another disk, or store smaller images: --stored-size"
        )


def told(skipped: dict[str, str]) -> str:
    """What was left out, in words."""
    names = ", ".join(list(skipped)[:SHOWN]) + (" ..." if len(skipped) > SHOWN else "")
    count = (
        "1 image does not decode and was"
        if len(skipped) == 1
        else f"{len(skipped)} images do not decode and were"
    )
    return f"{count} left out: {names}"
