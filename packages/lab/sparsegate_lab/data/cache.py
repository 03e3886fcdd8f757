"""Decodes photographs once, into a cache file that is mapped into memory."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from sparsegate_runtime.atomic import write_atomically

from .cache_folder import cache_folder, check_space, filling, mapped, replacing
from .decoding import decode_all
from .photos import MISSING, PhotoSource, Storing

VERSION = 2  # of the cache's format; a new version decodes all photographs again
SHOWN = 5  # names of bad images in a message


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
    folder = cache_folder(storing.cache)
    settings = json.dumps([VERSION, storing.size, storing.bad_images])
    content = (settings + source.key()).encode(
        errors="surrogateescape"
    )  # a file name may be any bytes
    key = hashlib.blake2b(content, digest_size=12).hexdigest()
    about, squares, count = folder / f"{key}.json", folder / f"{key}.squares", len(source.labels())
    skipped = _found(about, squares, count)
    if skipped is None:
        what, work = "decoded photographs", "decoding the same photographs"
        with filling(folder, key, what, work) as lock:
            skipped = _found(about, squares, count)  # another process may have written it
            if skipped is None:
                skipped = _make(source, storing, squares, lock)
                write_atomically(
                    about, json.dumps({str(index): why for index, why in skipped.items()}).encode()
                )
    kept = [index for index in range(count) if index not in skipped]
    shape = (len(kept), 3, storing.size, storing.size)
    images = mapped(squares, shape, torch.uint8, "decode the photographs")
    return CachedPhotos(images, kept, {source.name(index): why for index, why in skipped.items()})


def _found(about: Path, squares: Path, count: int) -> dict[int, str] | None:
    """The photographs that were skipped last time, and why; None if there is no valid cache."""
    if not squares.exists():
        return None
    try:
        skipped = {int(index): str(why) for index, why in json.loads(about.read_bytes()).items()}
    except (FileNotFoundError, ValueError, AttributeError):  # missing, damaged, or not ours
        return None
    return skipped if all(0 <= index < count for index in skipped) else None


def _make(source: PhotoSource, storing: Storing, path: Path, lock: int) -> dict[int, str]:
    """Decodes every photograph into a file; returns those that did not decode, and why."""
    if importlib.util.find_spec("PIL") is None:
        raise ValueError(MISSING)
    count, row = len(source.labels()), 3 * storing.size**2
    check_space(
        path.parent, count * row, "the decoded images", ", or store smaller images: --stored-size"
    )
    with replacing(path) as partial:
        with partial.open("wb") as file:
            file.truncate(count * row)
        skipped = decode_all(source, storing, partial, lock)
        _close_gaps(partial, skipped, count, row)
    return skipped


def _close_gaps(path: Path, skipped: dict[int, str], count: int, row: int) -> None:
    """Closes the gaps of skipped photographs."""
    if skipped:
        stored = np.memmap(path, np.uint8, "r+")
        rows = stored.reshape(count, row)
        kept = [index for index in range(count) if index not in skipped]
        for new, old in enumerate(kept):
            rows[new] = rows[old]
        stored.flush()
    with path.open("r+b") as file:
        file.truncate((count - len(skipped)) * row)


def describe_skipped(skipped: dict[str, str]) -> str:
    """A note that names the photographs that were skipped."""
    names = ", ".join(list(skipped)[:SHOWN]) + (" ..." if len(skipped) > SHOWN else "")
    count = (
        "1 image does not decode and was"
        if len(skipped) == 1
        else f"{len(skipped)} images do not decode and were"
    )
    return f"{count} left out: {names}"
