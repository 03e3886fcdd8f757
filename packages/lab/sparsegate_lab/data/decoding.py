"""Decodes photographs in several processes, into one file."""

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

from .photos import PhotoSource, Storing, decode

CHUNK = 32  # images that a worker takes at a time
LOOK = 0.5  # seconds between a worker's checks that its parent lives


def decode_all(source: PhotoSource, storing: Storing, path: Path, lock: int) -> dict[int, str]:
    """Writes every photograph as a square to a file; returns those that did not decode, and why.

    `lock` is the descriptor of the lock file, which the workers close.
    """
    count, skipped = len(source.labels()), {}
    with _workers(source, path, storing.size, lock) as workers:
        for index, why in enumerate(workers.map(_decode_one, range(count), chunksize=CHUNK)):
            if why and storing.bad_images == "stop":
                raise ValueError(
                    f"cannot decode {source.name(index)} ({why}); repair or remove it, or skip "
                    "such images: --bad-images skip"
                )
            if why:
                skipped[index] = why
            storing.progress(index + 1, count)
    if len(skipped) == count:
        raise ValueError(
            f"cannot decode any of the {count} images; the first, {source.name(0)}: {skipped[0]}"
        )
    return skipped


@contextmanager
def _workers(
    source: PhotoSource, path: Path, size: int, lock: int
) -> Iterator[ProcessPoolExecutor]:
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    several = max(1, min(available, math.ceil(len(source.labels()) / CHUNK)))
    # Forked processes start at once, and need no `if __name__ == "__main__"` in the user's script.
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # about forking with threads, which the workers do not use
        with ProcessPoolExecutor(
            several, context, _begin, (source, path, size, lock, os.getpid())
        ) as workers:
            try:
                yield workers
            except BrokenProcessPool as error:
                free = shutil.disk_usage(path.parent).free
                raise ValueError(
                    "a process that decoded photographs was killed: either memory is full, or "
                    f"{path.parent}, which has {free / 1e9:.1f} GB free; free some space, or set "
                    "SPARSEGATE_CACHE to a folder on another disk"
                ) from error
            except BaseException:  # such as an interrupt: do not decode the rest first
                workers.shutdown(wait=False, cancel_futures=True)
                raise


_task: dict[str, Any] = {}  # a worker process's source and target


def _begin(source: PhotoSource, path: Path, size: int, lock: int, parent: int) -> None:
    os.close(lock)  # or this process would hold the lock
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    rows = np.memmap(path, np.uint8, "r+").reshape(-1, 3, size, size)
    _task.update(source=source, rows=rows, size=size)


def _end_with(parent: int) -> None:
    """Ends this process when its parent is gone, which may have been killed."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


def _decode_one(index: int) -> str:
    """Writes one square; returns the reason if that fails, else an empty string."""
    try:
        _task["rows"][index] = decode(_task["source"].read(index), _task["size"])
    except Exception as error:  # Pillow raises any exception for damaged and very large files
        return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return ""
