"""CONTRACT Attack: one way to provoke faults, case by case, each case a function of a seed."""

from __future__ import annotations

import abc
import re
from pathlib import Path
from random import Random

FAULT = "fault: "
"""How the outcome of a case begins that must not happen."""


class Attack(abc.ABC):
    """Tries case after case. The outcome of a case depends on its random numbers only."""

    title: str
    """What is tried, for the record."""
    share: float = 1.0
    """How much of the time it gets, compared with the others."""
    patience: float = 60.0
    """Seconds after which a case counts as hanging."""
    memory: int | None = None
    """Bytes that a process may grow by; None for no limit."""

    def prepare(self, folder: Path) -> None:  # noqa: B027 some need nothing
        """Called once in every process before its first case, with an empty folder to work in."""

    @abc.abstractmethod
    def attempt(self, draw: Random) -> str:
        """Tries one case and returns its outcome, a few words; faults begin with `fault: `."""


def fault(error: BaseException) -> str:
    """The outcome of a case that raised what it must not raise: the error and where it came from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    where = f"{Path(code.co_filename).name}:{code.co_name}" if code is not None else "?"
    text = re.sub(r"\d[\d,.]*", "#", " ".join(str(error).split()))[:80]
    return f"{FAULT}{type(error).__name__} in {where}: {text}"


def refusal(error: ValueError, path: Path) -> str:
    """The outcome of a file that was refused: an error must be one line that names the file."""
    if not str(error):
        return f"{FAULT}an error without words"
    if str(path) not in str(error):
        return f"{fault(error)} (does not name the file)"
    if "\n" in str(error):
        return f"{fault(error)} (more than one line)"
    return "refused"
