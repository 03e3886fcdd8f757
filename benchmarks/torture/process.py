"""Runs commands of `sparsegate`, in forks of this process or in processes started for real."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from accelerate.state import AcceleratorState, GradientState

from sparsegate.cli import main

TOO_LONG = 600.0
"""Seconds after which a command counts as hanging."""
AGENT = 1.0
"""Seconds that other processes of a training have to end by themselves once one has failed."""
HUNG = -1000
"""The status of a command that hung."""
COMMAND = str(Path(sys.executable).parent / "sparsegate")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


@dataclass(frozen=True)
class Running:
    """A process, and the file that it writes its words to."""

    pid: int
    output: Path


@dataclass(frozen=True)
class Ended:
    """How a process has ended, and what it wrote."""

    status: int
    """The exit status, minus a signal's number, or HUNG."""
    text: str


def run_here(words: list[str], output: Path) -> int:
    """Runs a command in this process, so that its forks have imported what it imports."""
    sys.stdout.flush()
    before = os.dup(1), os.dup(2)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        _write_to(output)
        return main(words)
    finally:
        sys.stdout.flush()
        for descriptor, saved in enumerate(before, start=1):
            os.dup2(saved, descriptor)
            os.close(saved)
        signal.signal(signal.SIGTERM, handler)
        AcceleratorState._reset_state(reset_partial_state=True)  # forks may be of two processes
        GradientState._reset_state()


def started(
    words: list[str],
    output: Path,
    *,
    file_limit: int | None = None,
    environment: dict[str, str] | None = None,
) -> int:
    """Forks a process that runs a command, in a process group of its own."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setpgid(0, 0)
        _write_to(output)
        os.environ.update(environment or {})
        if file_limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        status = main(words)
    except BaseException as error:
        status = _status_of(error)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                status = status or 71
        os._exit(status)


def _status_of(error: BaseException) -> int:
    """The exit status of Python after an exception; shows what a user would see as a traceback."""
    if isinstance(error, SystemExit):  # of argparse
        return error.code if isinstance(error.code, int) else 1
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, KeyboardInterrupt) and main.__code__ not in frames:
        return 130  # before the command has begun, or after its end
    traceback.print_exception(error)
    return 70


def forked(words: list[str], output: Path) -> list[Running]:
    """Forks one process."""
    return [Running(started(words, output), output)]


def forked_pair(words: list[str], output: Path) -> list[Running]:
    """Forks the two processes that torchrun would start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    both = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ACCELERATE_USE_CPU": "true"}
    both |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    pair = []
    for rank in "01":
        own = {**both, "RANK": rank, "LOCAL_RANK": rank}
        path = output.with_suffix(f".{rank}")
        pair.append(Running(started(words, path, environment=own), path))
    return pair


def started_by_shell(words: list[str], output: Path) -> list[Running]:
    """Starts Python, as a shell does."""
    return [_started([COMMAND, *words], output)]


def started_by_torchrun(words: list[str], output: Path) -> list[Running]:
    """Starts the two processes by torchrun."""
    return [_started([*TORCHRUN, "-m", "sparsegate", *words], output)]


def _started(command: list[str], output: Path) -> Running:
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            process_group=0,
            env={**os.environ, "ACCELERATE_USE_CPU": "true"},
        )
    process.returncode = 0  # it is waited for by `ended`
    return Running(process.pid, output)


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
    return Ended(HUNG, output.read_text(errors="replace"))


def ended_together(running: list[Running]) -> list[Ended]:
    """Waits for the processes of one training, and ends all once one has failed, as torchrun does."""
    failed, deadline = False, time.monotonic() + TOO_LONG
    while any(not has_ended(each.pid) for each in running) and time.monotonic() < deadline:
        if not failed and any(has_failed(each.pid) for each in running):
            failed, deadline = True, time.monotonic() + 10 * AGENT
            time.sleep(AGENT)
            for each in running:
                if not has_ended(each.pid):
                    os.kill(each.pid, signal.SIGTERM)
        time.sleep(0.002)
    if failed:
        for each in running:
            if not has_ended(each.pid):
                os.kill(each.pid, signal.SIGKILL)
    return [ended(each.pid, each.output, patience=1) for each in running]


def has_ended(child: int) -> bool:
    """Whether a child of this process has ended; it still has to be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def has_failed(child: int) -> bool:
    """Whether a child of this process has ended, and not well."""
    found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found is not None and (found.si_code != os.CLD_EXITED or found.si_status != 0)


def workers(launcher: int) -> list[int]:
    """The processes that a process has started."""
    listed = Path(f"/proc/{launcher}/task/{launcher}/children")
    return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []


def problems(done: Ended) -> str:
    """What is wrong with how a command has ended: a traceback, a hang or a crash.

    Empty if nothing.
    """
    if done.status == HUNG:
        return "hangs"
    if done.status < 0 and -done.status not in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        return f"died of signal {-done.status}"
    if "Traceback (most recent call last)" in done.text:
        return "traceback: " + done.text.strip().splitlines()[-1]
    return ""


def _write_to(output: Path) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
