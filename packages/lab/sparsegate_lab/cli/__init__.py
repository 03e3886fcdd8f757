"""The `sparsegate` command: finds the verb, runs it, and turns errors into one line."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from importlib import import_module

VERBS = {
    "train": "train a sparse network: a recipe by name, or any model with any data",
    "frontier": "train many networks at once and draw accuracy over weights",
    "inspect": "show a network's tensors, how sparse they are, and what its file takes",
    "compress": "write a network with zeros to a file that is truly smaller",
    "export": "write a network for programs without PyTorch: C code with the weights in it, or a page that runs it",
    "report": "make the page of a run, or of several side by side",
    "bench": "time a network dense and sparse, by every engine that is installed",
    "reproduce": "make a table or figure of the paper, ours beside the printed numbers",
}

USAGE = "usage: sparsegate VERB ...\n\n" + "\n".join(
    f"  {verb:10}{about}" for verb, about in VERBS.items()
)
NO_SPACE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
LOST = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "remote process has exited",
)
HINTS = "\n\nsparsegate VERB --help tells a verb's options; sparsegate --version the version."


def main(argv: list[str] | None = None) -> int:
    """Runs one verb; returns 0, 1 for work that failed, or 2 for input that cannot be used.

    If what reads the output ends before, as in `sparsegate train --help | head`, it ends quietly, too.
    """
    try:
        try:
            return _answered(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()  # what fails at the interpreter's end cannot be caught
    except BrokenPipeError:
        if not _nobody_reads():
            raise
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # for what is still to be flushed
        return 128 + signal.SIGPIPE


def _answered(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        from sparsegate_runtime.version import VERSION

        print(VERSION)
        return 0
    if words[:1] in ([], ["-h"], ["--help"]):
        print(USAGE + HINTS)
        return 0 if words else 2
    if words[0] not in VERBS:
        return _complain(f"unknown verb {words[0]!r}; known: {', '.join(VERBS)}", 2)
    return _guarded(words)


def _guarded(words: list[str]) -> int:
    try:
        import_module(f"sparsegate_lab.cli.{words[0]}").main(words[1:])
    except KeyboardInterrupt:
        return _complain("interrupted; the same command goes on from the last checkpoint", 130)
    except (ValueError, OSError, RuntimeError) as error:
        if os.environ.get("SPARSEGATE_TRACEBACK") or (
            isinstance(error, BrokenPipeError) and _nobody_reads()
        ):
            raise
        return _complain(_one_line(error), 2 if isinstance(error, ValueError) else 1)
    return 0


def _nobody_reads() -> bool:
    """Whether the output goes to a process that has ended."""
    output = select.poll()
    try:
        output.register(sys.stdout, 0)
    except OSError:  # it is no file: a notebook's, or a test's
        return False
    return any(state & (select.POLLERR | select.POLLHUP) for _, state in output.poll(0))


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if any(word in text for word in LOST):
        return f"another process of this run has ended ({text}); the same command goes on from the last checkpoint"
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return (
            f"{text}; free some space or choose another --folder, then run the same command again"
        )
    return text


def _complain(message: str, code: int) -> int:
    print(f"sparsegate: error: {message}", file=sys.stderr)
    return code
