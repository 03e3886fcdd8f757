"""Decodes photographs in several processes, each to its place in a file."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .photos import Source, Storing, decode

CHUNK = 32  # images that a worker takes at a time
LOOK = 0.5  # seconds between a worker's looks at whether the process that began it lives


def decode_all(source: Source, storing: Storing, path: Path, lock: int) -> dict[int, str]:
    """Writes the square of every photograph to its place; returns which did not decode, and why.

    `lock` is an open file that is for this process alone; the workers close theirs.
    """
    count, skipped = len(source.labels()), {}
    with _workers(source, path, storing.size, lock) as workers:
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
        raise ValueError(
            f"none of the {count} images decodes; the first, {source.name(0)}: {skipped[0]}"
        )
    return skipped


@contextmanager
def _workers(source: Source, path: Path, size: int, lock: int) -> Iterator[ProcessPoolExecutor]:
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    several = max(1, min(available, math.ceil(len(source.labels()) / CHUNK)))
    # Forked processes begin at once, and a user's script need not be guarded against a second start.
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forks beside threads; the workers use none of theirs
        with ProcessPoolExecutor(
            several, context, _begin, (source, path, size, lock, os.getpid())
        ) as workers:
            try:
                yield workers
            except BrokenProcessPool as error:
                free = shutil.disk_usage(path.parent).free
                raise ValueError(
                    f"a process that decoded photographs was killed: the memory is full, or {path.parent}, which has "
                    f"{free / 1e9:.1f} GB free; make room, or set SPARSEGATE_CACHE to a folder on another disk"
                ) from error
            except (
                BaseException
            ):  # an interrupt too: a million images would be decoded before it was heard
                workers.shutdown(wait=False, cancel_futures=True)
                raise


_task: dict[str, Any] = {}  # of a worker process: what it reads and where it writes


def _begin(source: Source, path: Path, size: int, lock: int, parent: int) -> None:
    os.close(lock)  # or it would be held for as long as this process lives
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # an interrupt is for the process that began this one
    rows = np.memmap(path, np.uint8, "r+").reshape(-1, 3, size, size)
    _task.update(source=source, rows=rows, size=size)


def _end_with(parent: int) -> None:
    """Ends this process once the one that began it is gone: if that was killed, nobody else would end this one."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


def _decode_one(place: int) -> str:
    """Writes one square to its place; returns why that failed, or nothing."""
    try:
        _task["rows"][place] = decode(_task["source"].read(place), _task["size"])
    except (
        Exception
    ) as error:  # Pillow raises of all kinds for damaged files, and for very large ones
        return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return ""
