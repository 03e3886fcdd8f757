"""Limits the memory for the tensors of a file, so that a small file cannot exhaust the machine."""

from __future__ import annotations

import os
from pathlib import Path

UNKNOWN_MACHINE = 16 * 2**30
SMALL = 2**28
"""Bytes of dense tensors that any file may describe."""
MOST_TIMES_SMALLER = 4096
"""How many times larger than their file the tensors may be. A network that keeps one weight in a
thousand, with two bits for each, is about 2,500 times larger than its file."""
CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def default_limit(file_bytes: int | None = None) -> int:
    """The most bytes of dense tensors to make without being asked: half of the machine's memory.

    With the size of the file they come from, no more than 4096 times that size, or 256 MiB.
    """
    half = machine_memory() // 2
    return half if file_bytes is None else min(half, max(SMALL, MOST_TIMES_SMALLER * file_bytes))


def check_limit(
    wanted: int, limit: int | None, *, file_bytes: int | None = None, file: str = ""
) -> None:
    """Raises ValueError if `wanted` bytes are over the limit; None means the default limit."""
    most = default_limit(file_bytes) if limit is None else limit
    if wanted > most:
        where = f"{file}: " if file else ""
        raise ValueError(
            f"{where}the tensors take {wanted:,} bytes, more than the limit of {most:,}; "
            "raise limit= to load"
        )


def machine_memory() -> int:
    """Bytes of memory of the machine, or of its container if that is less."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        found = [UNKNOWN_MACHINE]
    for path in map(Path, CONTAINER_LIMITS):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal() and int(text):
            found.append(int(text))
    return min(found)
