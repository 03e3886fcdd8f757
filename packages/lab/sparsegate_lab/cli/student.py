"""`sparsegate train` for recipes whose network learns from dense ones."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from sparsegate_lab.recipes import STUDENTS, train_students
from sparsegate_lab.record import Record

from .flags import parse_flags
from .many_progress import ManyProgress

SHARED = ("data", "batch_size")  # settings that the student has in common with its teachers


@dataclass(frozen=True)
class Command:
    """Trains a small network that learns from dense ones, and cuts it to a number of weights.

    The teachers are trained first. Of several candidates, the one with the lowest validation loss
    is shown. An interrupted command resumes when repeated; teachers are shared by all recipes.
    """

    epochs: int
    """Epochs of the student."""

    teacher_epochs: int
    """Epochs of each teacher."""

    data: str
    """The data of the student and its teachers."""

    batch_size: int
    """Images per step."""

    seed: int = 0
    """Seed of the first candidate."""

    folder: Path = Path("runs")
    """Folder of all runs; each network gets a folder inside."""


def train_student(name: str, flags: list[str], words: str, console: Console) -> Record:
    """Trains the student of a recipe; returns the record of the chosen candidate."""
    command = parse(name, flags)
    student = STUDENTS[name]().with_settings(
        epochs=command.epochs,
        teacher_epochs=command.teacher_epochs,
        **{setting: getattr(command, setting) for setting in SHARED},
    )
    chosen = train_students(
        {name: student},
        [command.seed],
        folder=command.folder,
        command=words,
        watch=ManyProgress(console),
    )
    return chosen[name][0]


def parse(name: str, flags: list[str]) -> Command:
    """The settings of a student after the flags.

    >>> parse("lenet5-300x", ["--seed", "3"]).epochs
    400
    """
    student = STUDENTS[name]()
    run, teacher = student.member.run, student.teachers[0]
    default = Command(
        epochs=run.epochs,
        teacher_epochs=teacher.epochs,
        **{setting: getattr(run, setting) for setting in SHARED},
    )
    about = f"{inspect.getdoc(Command)}\n\n{name}: {STUDENTS[name].__doc__}"
    parsed: Command = parse_flags(
        Command, flags, default=default, name=f"sparsegate train {name}", about=about
    )
    return parsed
