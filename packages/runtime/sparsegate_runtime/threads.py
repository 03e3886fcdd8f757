"""Says how many threads the kernels use."""

from __future__ import annotations

import os
from collections.abc import Callable

_followed: list[Callable[[], int] | None] = [None]


def count() -> int:
    """The number of threads for the next kernel.

    Without `follow`, this is OMP_NUM_THREADS, or else the number of cores that the process may use.
    """
    if (source := _followed[0]) is not None:
        return max(1, source())
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(wanted) if wanted.isdecimal() and int(wanted) else _cores()


def follow(source: Callable[[], int] | None) -> Callable[[], int] | None:
    """Makes `count` ask another library, for example `torch.get_num_threads`; None ends that.

    Two libraries in one process then share the cores. Returns the source that was asked before.
    """
    before = _followed[0]
    _followed[0] = source
    return before


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
