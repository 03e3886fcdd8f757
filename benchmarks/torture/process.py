"""Runs a command of `sparsegate` in a fork of this process, which has imported everything."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sparsegate.cli import main

TOO_LONG = 120.0
"""Seconds after which a command counts as hanging."""


@dataclass(frozen=True)
class Ended:
    """How a process has ended, and what it wrote."""

    status: int
    """The exit status, minus a signal's number, or None's stand-in -1000 if it hung."""
    text: str


def started(words: list[str], output: Path, *, file_limit: int | None = None) -> int:
    """Forks a process that runs a command, in a process group of its own."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        if file_limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        status = main(words)
    except SystemExit as ending:  # of argparse
        status = ending.code if isinstance(ending.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                status = status or 71
        os._exit(status)


def ended(child: int, output: Path, *, patience: float = TOO_LONG) -> Ended:
    """Waits for a process; one that takes too long is killed."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return Ended(os.waitstatus_to_exitcode(status), output.read_text(errors="replace"))
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Ended(-1000, output.read_text(errors="replace"))


def killed(child: int, seconds: float, ready: Callable[[], bool], number: int) -> None:
    """Sends a signal to a process some seconds after it is ready, if it has not ended by then."""
    deadline = time.monotonic() + TOO_LONG
    while not ready() and time.monotonic() < deadline:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.001)
    time.sleep(seconds)
    if not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        os.kill(child, number)


def problems(done: Ended) -> str:
    """What is wrong with how a command has ended: a traceback, a hang or a crash.

    Empty if nothing.
    """
    if done.status == -1000:
        return "hangs"
    if done.status < 0 and -done.status not in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        return f"died of signal {-done.status}"
    if "Traceback (most recent call last)" in done.text:
        return "traceback: " + done.text.strip().splitlines()[-1]
    return ""
