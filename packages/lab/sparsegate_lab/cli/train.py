"""`sparsegate train`: trains one run, with a progress bar, and shows its record."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import shlex
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from sparsegate.named_object import is_object_name
from sparsegate_lab.data import DATASETS
from sparsegate_lab.methods import METHODS
from sparsegate_lab.models import MODELS
from sparsegate_lab.recipes import RECIPES, STUDENTS
from sparsegate_lab.record import Record
from sparsegate_lab.report import layer_table, make_page
from sparsegate_lab.train import (
    Run,
    RunFolder,
    TensorBoard,
    Tracker,
    Watcher,
    Watchers,
    is_main_process,
    leave_group,
    train,
)
from sparsegate_runtime.registry import Registry

from . import student
from .flags import parse_flags
from .progress import Progress

AnyRun = TypeVar("AnyRun")
RUNS: Registry[Callable[[], Run[Any]]] = Registry(
    "recipe or model", {**RECIPES, **{name: functools.partial(Run, model=name) for name in MODELS}}
)
FLAT = tyro.conf.arg(name="")  # its fields are flags without a prefix


@dataclass(frozen=True)
class Command(Generic[AnyRun]):
    """Trains the network that NAME and the flags describe.

    NAME is a recipe, a model, or module:Class for a model of your own, and flags change its
    settings; the defaults below are those of NAME. An interrupted run resumes when the command is
    repeated; a run that has ended shows its record again.
    """

    run: Annotated[AnyRun, FLAT]

    folder: Path = Path("runs")
    """Folder of all runs; each run gets a folder inside, named after its settings."""

    save_every: int = 1
    """Epochs between two checkpoints."""

    pack: bool = True
    """Write the finished network to small files too; takes a minute for 100 million weights."""

    shard: bool = False
    """With several processes: shard the model (FSDP2) instead of copying it (DDP)."""

    track: Literal["no", "wandb", "trackio"] = "no"
    """Log the run with Weights & Biases or trackio, too."""


def main(argv: list[str]) -> None:
    """Parses the command, trains, and shows the record and the path of its page."""
    console, words = Console(), shlex.join(["sparsegate", "train", *argv])
    if threading.current_thread() is threading.main_thread():
        # Clusters send SIGTERM; it ends a run as Ctrl-C does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    name, flags = name_first(argv, [*RUNS, *STUDENTS])
    if name in STUDENTS:
        record = student.train_student(name, flags, words, console)
        folder = student.parse(name, flags).folder
    else:
        command = parse(argv)
        folder = command.folder
        had_ended = (folder / command.run.name / "record.json").exists()
        record = _train(command, words, console)
        if had_ended and is_main_process():
            console.print(_shown(command.run), highlight=False, markup=False, soft_wrap=True)
    if is_main_process():
        _show(record, folder / record.name, console)
    leave_group()


def _train(command: Command[Run[Any]], words: str, console: Console) -> Record:
    watchers: list[Watcher] = [Progress(console)]
    if TensorBoard.is_installed():
        watchers.append(TensorBoard())
    if command.track != "no":
        watchers.append(Tracker(command.track))
    return train(
        command.run,
        folder=command.folder,
        watch=Watchers(*watchers),
        command=words,
        save_every=command.save_every,
        pack=command.pack,
        shard=command.shard,
    )


def _shown(run: Run[Any]) -> str:
    """What a reader should know of the result of a run that had ended before."""
    data = (
        ""
        if run.data in DATASETS
        else f" The data is known by its path: if {run.data} has "
        "changed since then, use another --folder or delete this one."
    )
    return f"This run has ended before; its result is shown.{data}"


def _show(record: Record, folder: Path, console: Console) -> None:
    show_record(record, RunFolder(folder, Run.from_json(record.run)), console)
    console.print(_page(folder), highlight=False, markup=False, soft_wrap=True)


def _page(folder: Path) -> str:
    """Writes the run's page; says where it is, or why there is none."""
    try:
        return f"page: {make_page(folder)}"
    except Exception as error:  # the run has ended well, whatever becomes of its page
        return f"note: no page was made: {error}; sparsegate report {folder} tries again"


def parse(argv: list[str]) -> Command[Run[Any]]:
    """The command in these words.

    >>> parse(["lenet300", "--epochs", "3", "--penalty.count", "5"]).run.method.penalty.count
    5.0
    """
    described = described_run(argv, also=tuple(STUDENTS))
    parsed: Command[Run[Any]] = parse_described(described, Command, verb="train")
    return parsed


@dataclass(frozen=True)
class Described:
    """The run that a name and a method stand for, and the flags that change it."""

    name: str
    run: Run[Any]
    flags: list[str]
    names: list[str]
    """All names, for the help."""


def described_run(argv: list[str], *, also: tuple[str, ...] = ()) -> Described:
    """The run that the first words of a command describe.

    Args:
        argv: NAME, --method and other flags.
        also: names for the help that are not those of runs.
    """
    names = [*RUNS, *also]
    name, flags = name_first(argv, names)
    run = Run(model=name) if is_object_name(name) else RUNS[name or "lenet5"]()
    method, flags = _without("--method", flags)
    if method and METHODS[method] is not type(run.method):
        run = dataclasses.replace(run, method=METHODS[method]())
    return Described(name, run, flags, names)


def parse_described(described: Described, command: Any, *, verb: str) -> Any:
    """A command with the run and the flags.

    Args:
        described: the run.
        command: the generic class of the command, whose parameter is the type of the run.
        verb: the command's verb, for the help.
    """
    run = described.run
    kind: Any = command[Run[Annotated[type(run.method), FLAT]]]  # type: ignore[misc]
    return parse_flags(
        kind,
        described.flags,
        default=kind(run),
        name=f"sparsegate {verb} {described.name or 'NAME'} [--method {{{','.join(METHODS)}}}]",
        about=f"{inspect.getdoc(command)}\n\nNAME: {', '.join(described.names)}",
    )


def name_first(argv: list[str], known: list[str]) -> tuple[str, list[str]]:
    """The name before all flags, and the flags; the name may be missing only to ask for help."""
    if argv and not argv[0].startswith("-"):
        return argv[0], argv[1:]
    if not {"-h", "--help"} & set(argv):
        raise ValueError(f"pass the name of a recipe or a model: {', '.join(known)}")
    return "", argv


def _without(flag: str, words: list[str]) -> tuple[str, list[str]]:
    """The value of a flag that decides which other flags exist, and the remaining words."""
    for index, word in enumerate(words):
        if word == flag:
            if index + 1 == len(words):
                raise ValueError(f"{flag} needs a value: {', '.join(METHODS)}")
            return words[index + 1], words[:index] + words[index + 2 :]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2], words[:index] + words[index + 1 :]
    return "", words


def show_record(record: Record, place: RunFolder, console: Console) -> None:
    """Prints the table of layers, the result and its path."""
    heads, *rows, total = layer_table(record)
    table = Table(*heads)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    table.add_section()
    table.add_row(*total)
    console.print(table)
    for line in _lines(record, place):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _files(place: RunFolder) -> list[str]:
    dense = place.network.stat().st_size
    sizes = {path.name: path.stat().st_size for path in place.packed}
    return [
        f"{name}: {size:,} bytes, {dense / size:.1f} times smaller than dense"
        for name, size in sizes.items()
    ]


def _lines(record: Record, place: RunFolder) -> list[str]:
    return [
        f"test accuracy {record.test:.2f} %, validation {record.validation:.2f} %",
        f"{record.kept:,} of {record.total:,} weights ({record.rate:.1f}x fewer); "
        f"with biases {record.rate_with_biases:.1f}x; "
        f"weights and indices {record.num_with_indices:,} numbers",
        *(f"note: {note}" for note in record.notes),
        *_files(place),
        f"{record.seconds:.0f} s of training; record, network and checkpoints are in {place.path}",
    ]
