"""One process at a time at a piece of work, by a lock that ends with it."""

from __future__ import annotations

import fcntl
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

SOON = 1.0  # seconds that a wait may take before it is told


@contextmanager
def alone(path: Path, work: str) -> Iterator[int]:
    """Waits until no other process holds the lock of a file, and says so if that takes a while.

    Gives the number of the open file. A forked process has it too, and holds the lock until it ends or closes it.
    """
    with path.open("w") as lock:
        if not _taken_soon(lock):
            warnings.warn(
                f"another process is {work} and holds {path}; this one waits for it", stacklevel=3
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _taken_soon(lock: TextIOWrapper) -> bool:
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False
