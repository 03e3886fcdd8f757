"""Tries cases in a process of their own, so that a crash or a hang is an outcome like any other."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random

from .attack import FAULT, Attack, fault

PREPARING = 600.0
"""Seconds after which preparations count as hanging."""
MEMORY = Path("/dev/shm")
"""A folder without a disk under it, if the machine has one."""
READY = b"-1\tprepared\n"
Outcome = tuple[int, str]
"""The number of a case, and what came of it."""


def draw_of(name: str, seed: int, number: int) -> Random:
    """The random numbers of one case."""
    return Random(f"{name}/{seed}/{number}")


def outcomes(name: str, attack: Attack, seed: int, first: int, seconds: float) -> Iterator[Outcome]:
    """Tries cases for some seconds, preparations aside, in as many processes as it takes."""
    number = first - 1
    while seconds > 0:
        began = time.monotonic()
        for case, outcome in _one_process(name, attack, seed, number + 1, seconds):
            if case < 0:  # prepared
                began = time.monotonic()
                continue
            number = case
            yield number, outcome
        seconds -= time.monotonic() - began


def _one_process(
    name: str, attack: Attack, seed: int, first: int, seconds: float
) -> Iterator[Outcome]:
    """The cases that one process tries, until it ends, crashes or hangs."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(name, attack, seed, first, seconds, writing, Path(folder))
        os.close(writing)
        reported = _Reported(reading, attack.patience, first - 1)
        complete = False
        try:
            yield from reported.lines()
            complete = not reported.hangs
        finally:  # also if nobody asks for more
            if not complete:
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
    next_one = reported.number + 1
    if reported.hangs:
        yield next_one, f"{FAULT}hangs for more than {attack.patience:g} s"
    elif os.WIFSIGNALED(status):
        yield next_one, f"{FAULT}the process died of signal {os.WTERMSIG(status)}"
    elif status:
        yield next_one, f"{FAULT}the process ended with status {os.WEXITSTATUS(status)}"


class _Reported:
    """What a process writes to its pipe, until it ends or says nothing for too long."""

    def __init__(self, pipe: int, patience: float, number: int) -> None:
        self._pipe, self._patience = pipe, patience
        self.number, self.hangs = number, False

    def lines(self) -> Iterator[Outcome]:
        """The cases and their outcomes."""
        rest, patience = b"", PREPARING
        with os.fdopen(self._pipe, "rb", buffering=0) as pipe:
            while True:
                if not select.select([pipe], [], [], patience)[0]:
                    self.hangs = True
                    return
                if not (received := pipe.read(65536)):
                    return
                patience = self._patience
                *lines, rest = (rest + received).split(b"\n")
                for line in lines:
                    text, _, outcome = line.decode(errors="replace").partition("\t")
                    self.number = max(self.number, int(text))
                    yield int(text), outcome


def _work(
    name: str, attack: Attack, seed: int, first: int, seconds: float, pipe: int, folder: Path
) -> None:
    """Tries cases one after another; never returns."""
    status = 0
    try:
        attack.prepare(folder)
        if attack.memory is not None:
            limit_memory(attack.memory)
        os.write(pipe, READY)
        number, deadline = first, time.monotonic() + seconds
        while time.monotonic() < deadline:
            outcome = attempted(attack, draw_of(name, seed, number))
            os.write(pipe, f"{number}\t{' '.join(outcome.split())}\n".encode())
            number += 1
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)


def attempted(attack: Attack, draw: Random) -> str:
    """The outcome of a case, also if it raises."""
    try:
        return attack.attempt(draw)
    except Exception as error:  # every kind is what is looked for
        return fault(error)


def limit_memory(more: int) -> None:
    """Limits the address space of this process to what it has and some bytes more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
