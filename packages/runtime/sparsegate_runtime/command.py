"""The `sparsegate` command: finds a verb among the installed packages, runs it, reports errors.

It lives in the runtime because it must start without PyTorch: help, errors and an early Ctrl-C
would otherwise wait for seconds of imports.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import threading
from importlib.metadata import EntryPoint, entry_points
from types import FrameType

from .version import VERSION

GROUP = "sparsegate.verbs"
"""Entry points of this group are verbs: `NAME = "module:main"`, where main takes the arguments."""
OURS = {
    "sparsegate-lab": {
        "train": "train a sparse network: a recipe by name, or a model with your settings",
        "compare": "train a network with several methods at several rates, and plot them",
        "frontier": "train one network at many penalties and plot accuracy against weights",
        "sweep": "train a recipe with many settings and show the best",
        "report": "write the HTML page of a run, or of several runs side by side",
        "reproduce": "reproduce a table or figure of the paper, next to the printed numbers",
    },
    "sparsegate": {
        "inspect": "show how sparse each tensor of a network is and what its file takes",
        "compress": "write a sparse network to a file that is truly smaller",
        "bench": "time a network dense and sparse in every engine that is installed",
        "export": "write a network as C code, as ONNX, or as a page for a browser",
    },
}
"""The verbs of our own packages, so that help needs no imports and a missing package is named."""
PACKAGES = {verb: package for package, verbs in OURS.items() for verb in verbs}
FROM_A_CLONE = 'in a clone of the repository: pip install ".[lab]"'
HINTS = """
sparsegate VERB --help lists the options of a verb.
sparsegate --version prints the version."""
INTERRUPTED = b"sparsegate: error: interrupted before any work began\n"
NO_SPACE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
LOST = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "remote process has exited",
)


def main(argv: list[str] | None = None) -> int:
    """Runs one verb and returns the exit code.

    The code is 0, 1 for work that failed, 2 for input that cannot be used, 130 after Ctrl-C. If the
    reader of the output has gone, as in `sparsegate train --help | head`, it is 141, silently.
    """
    try:
        try:
            return _answer(sys.argv[1:] if argv is None else argv)
        except KeyboardInterrupt:  # before a verb runs, or after it
            return _complain("interrupted", 130)
        finally:
            sys.stdout.flush()  # an error at the interpreter's end could not be caught
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for later flushes
        return 128 + signal.SIGPIPE


def installed_verbs() -> dict[str, EntryPoint]:
    """The verbs of all installed packages; nothing is imported."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def usage() -> str:
    """All verbs with a line each; those of packages that are missing say what to install."""
    found = installed_verbs()
    lines = [
        f"  {verb:10} {about}" + ("" if verb in found else f" (pip install {package})")
        for package, verbs in OURS.items()
        for verb, about in verbs.items()
    ]
    lines += [
        f"  {name:10} {_summary(entry)}" for name, entry in found.items() if name not in PACKAGES
    ]
    if any(verb not in found for verb in PACKAGES):
        lines += ["", f"To install all verbs {FROM_A_CLONE}"]
    return "\n".join(["usage: sparsegate VERB ...", "", *lines])


def _summary(entry: EntryPoint) -> str:
    """What another package says about itself, since its verb is not imported for the help."""
    if entry.dist is None:
        return entry.value
    about: str = entry.dist.metadata["Summary"] or ""
    return f"from {entry.dist.name}: {about}".rstrip(": ")


def _answer(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        print(VERSION)
        return 0
    if words[:1] in ([], ["-h"], ["--help"]):
        print(usage() + "\n" + HINTS)
        return 0 if words else 2
    verb, found = words[0], installed_verbs()
    if verb in found:
        return _run(found[verb], words[1:])
    if verb in PACKAGES:
        package = PACKAGES[verb]
        how = f"pip install {package}; or {FROM_A_CLONE}"
        return _complain(f"{verb} is part of {package}: {how}", 2)
    known = dict.fromkeys([*PACKAGES, *found])
    return _complain(f"unknown verb {verb!r}; known: {', '.join(known)}", 2)


def _run(entry: EntryPoint, words: list[str]) -> int:
    try:
        _load(entry)(words)
    except KeyboardInterrupt:
        return _complain("interrupted; the same command continues from the last checkpoint", 130)
    except (ValueError, OSError, RuntimeError) as error:
        gone = isinstance(error, BrokenPipeError) and _reader_is_gone()
        if gone or os.environ.get("SPARSEGATE_TRACEBACK"):
            raise
        return _complain(_one_line(error), 2 if isinstance(error, ValueError) else 1)
    return 0


def _load(entry: EntryPoint):  # type: ignore[no-untyped-def] # noqa: ANN202 (any callable)
    """Imports a verb; Ctrl-C during the import ends the process at once.

    An exception in the middle of an import can surface anywhere, in C++ it even aborts.
    """
    if threading.current_thread() is not threading.main_thread():
        return entry.load()
    before = signal.signal(signal.SIGINT, _leave)
    try:
        return entry.load()
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001
    os.write(2, INTERRUPTED)
    os._exit(130)


def _reader_is_gone() -> bool:
    """Whether the output is a pipe whose other end is closed."""
    output = select.poll()
    try:
        output.register(sys.stdout, 0)
    except OSError:  # not a file: a notebook's output, or a test's
        return False
    return any(state & (select.POLLERR | select.POLLHUP) for _, state in output.poll(0))


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if any(word in text for word in LOST):
        return (
            f"another process of this run has ended ({text}); "
            "the same command continues from the last checkpoint"
        )
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return f"{text}; free some space or choose another --folder, then repeat the command"
    return text


def _complain(message: str, code: int) -> int:
    print(f"sparsegate: error: {message}", file=sys.stderr)
    return code
