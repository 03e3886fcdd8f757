"""Ends a training on Ctrl-C or SIGTERM between two steps, never inside of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Postpones the interrupts of this process until the training asks for them.

    An exception that a signal raises inside of PyTorch's C++ code can abort the process. While
    `postponed` is active, the first interrupt is only remembered, and `check` raises it. A second
    interrupt is raised at once, for those who do not want to wait.

    Only signals that would raise `KeyboardInterrupt` are postponed. Handlers of the caller, and
    threads other than the main one, are left alone.
    """

    def __init__(self) -> None:
        self._arrived = False

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Remembers interrupts, and raises at the end if one has arrived."""
        raising = [
            number
            for number in (signal.SIGINT, signal.SIGTERM)
            if signal.getsignal(number) is signal.default_int_handler
        ]
        if threading.current_thread() is not threading.main_thread():
            raising = []
        for number in raising:
            signal.signal(number, self._remember)
        try:
            yield
        finally:
            for number in raising:
                signal.signal(number, signal.default_int_handler)
        self.check()

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if an interrupt has arrived."""
        if self._arrived:
            raise KeyboardInterrupt

    def _remember(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.check()
        self._arrived = True
