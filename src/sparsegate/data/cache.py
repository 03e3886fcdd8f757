"""Photographs decoded once, by several processes, into a file of bytes that is mapped into memory."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import math
import multiprocessing
import os
import shutil
import signal
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from sparsegate.atomic import write_atomically

from .photos import MISSING, Source, Storing, decode

VERSION = 1  # of how squares are made and laid out; another one makes them anew
CHUNK = 32  # images that a worker takes at a time
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
    that want it one makes it and the others wait.
    """
    folder = storing.cache or Path(os.environ.get("SPARSEGATE_CACHE") or Path.home() / ".cache" / "sparsegate")
    settings = json.dumps([VERSION, storing.size, storing.bad_images])
    key = hashlib.blake2b((settings + source.key()).encode(), digest_size=12).hexdigest()
    about, squares = folder / f"{key}.json", folder / f"{key}.squares"
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / f"{key}.lock"):
        if not (about.exists() and squares.exists()):
            skipped = _make(source, storing, squares)
            write_atomically(about, json.dumps({str(place): why for place, why in skipped.items()}).encode())
    skipped = {int(place): why for place, why in json.loads(about.read_text()).items()}
    kept = [place for place in range(len(source.labels())) if place not in skipped]
    images = _mapped(squares, (len(kept), 3, storing.size, storing.size))
    return Stored(images, kept, {source.name(place): why for place, why in skipped.items()})


def _make(source: Source, storing: Storing, path: Path) -> dict[int, str]:
    """Decodes every photograph into a file; returns which did not decode, and why."""
    if importlib.util.find_spec("PIL") is None:
        raise ValueError(MISSING)
    count, row = len(source.labels()), 3 * storing.size**2
    _check_space(path.parent, count * row)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.truncate(count * row)
        skipped = _decode_all(source, storing, partial)
        _close_gaps(partial, skipped, count, row)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return skipped


def _decode_all(source: Source, storing: Storing, path: Path) -> dict[int, str]:
    count, skipped = len(source.labels()), {}
    with _workers(source, path, storing.size, count) as workers:
        for place, why in enumerate(workers.map(_decode_one, range(count), chunksize=CHUNK)):
            if why and storing.bad_images == "stop":
                raise ValueError(
                    f"{source.name(place)} does not decode ({why}); mend or remove it, or leave such images out: "
                    "--bad-images skip"
                )
            if why:
                skipped[place] = why
            storing.progress(place + 1, count)
    if len(skipped) == count:
        raise ValueError(f"none of the {count} images decodes; the first, {source.name(0)}: {skipped[0]}")
    return skipped


@contextmanager
def _workers(source: Source, path: Path, size: int, count: int) -> Iterator[ProcessPoolExecutor]:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    several = max(1, min(available, math.ceil(count / CHUNK)))
    # Where processes can be forked they begin at once, and a user's script need not be guarded against a second start.
    way = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    context = multiprocessing.get_context(way)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads; the workers use none
        with ProcessPoolExecutor(several, context, _begin, (source, path, size)) as workers:
            try:
                yield workers
            except BaseException:  # an interrupt too: a million images would be decoded before it was heard
                workers.shutdown(wait=False, cancel_futures=True)
                raise


_task: dict[str, Any] = {}  # of a worker process: what it reads and where it writes


def _begin(source: Source, path: Path, size: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that began this one
    rows = np.memmap(path, np.uint8, "r+").reshape(-1, 3, size, size)
    _task.update(source=source, rows=rows, size=size)


def _decode_one(place: int) -> str:
    """Writes one square to its place; returns why that failed, or nothing."""
    try:
        _task["rows"][place] = decode(_task["source"].read(place), _task["size"])
    except Exception as error:  # Pillow raises of all kinds for damaged files, and for very large ones
        return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return ""


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
    return torch.from_file(str(path), shared=False, size=math.prod(shape), dtype=torch.uint8).reshape(shape)


def _check_space(folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if wanted > free:
        raise ValueError(
            f"the decoded images take {wanted / 1e9:.1f} GB, and {folder} has {free / 1e9:.1f} GB free; "
            "set SPARSEGATE_CACHE to a folder on another disk, or store smaller images: --stored-size"
        )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Waits until no other process is at work on the same file."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def told(skipped: dict[str, str]) -> str:
    """What was left out, in words."""
    names = ", ".join(list(skipped)[:SHOWN]) + (" ..." if len(skipped) > SHOWN else "")
    count = "1 image does not decode and was" if len(skipped) == 1 else f"{len(skipped)} images do not decode and were"
    return f"{count} left out: {names}"
