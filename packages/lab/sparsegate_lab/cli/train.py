"""`sparsegate train`: one run, with a progress bar, to its record."""

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
from typing import Annotated, Any, Generic, TypeVar

import tyro
from rich.console import Console

from sparsegate_lab.methods import METHODS
from sparsegate_lab.models import MODELS
from sparsegate_lab.page import make_page
from sparsegate_lab.paper import PUPILS, RECIPES
from sparsegate_lab.train import (
    Run,
    RunFolder,
    TensorBoard,
    Watcher,
    Watchers,
    is_main_process,
    leave_group,
    train,
)
from sparsegate_runtime.registry import Registry

from .flags import parse_flags
from .progress import Progress
from .show import show_record

AnyRun = TypeVar("AnyRun")
RUNS: Registry[Callable[[], Run[Any]]] = Registry(
    "recipe or model", {**RECIPES, **{name: functools.partial(Run, model=name) for name in MODELS}}
)
FLAT = tyro.conf.arg(name="")  # its fields are flags without a prefix


@dataclass(frozen=True)
class Command(Generic[AnyRun]):
    """Trains the network that NAME and the flags describe.

    NAME is a recipe or a model; flags change its settings, of which the defaults below are its own. A run that was
    interrupted goes on; one that has ended shows its record again.
    """

    run: Annotated[AnyRun, FLAT]

    folder: Path = Path("runs")
    """Folder of all runs; each has one of its own in it, named after its settings."""

    save_every: int = 1
    """Epochs between two checkpoints."""

    pack: bool = True
    """Write the finished network to small files too; takes a minute for a hundred million weights."""

    shard: bool = False
    """With several processes: each holds a part of the model (FSDP2), not a copy of it (DDP)."""


def main(argv: list[str]) -> None:
    """Parses the command, trains, and shows the record."""
    command = parse(argv)
    console = Console()
    watchers: list[Watcher] = [Progress(console)]
    if TensorBoard.is_installed():
        watchers.append(TensorBoard())
    words = shlex.join(["sparsegate", "train", *argv])
    if threading.current_thread() is threading.main_thread():
        signal.signal(
            signal.SIGTERM, signal.default_int_handler
        )  # what clusters send: ends as Ctrl-C does
    record = train(
        command.run,
        folder=command.folder,
        watch=Watchers(*watchers),
        command=words,
        save_every=command.save_every,
        pack=command.pack,
        shard=command.shard,
    )
    if is_main_process():
        show_record(record, RunFolder(command.folder / record.name, command.run), console)
        console.print(
            _page(command.folder / record.name), highlight=False, markup=False, soft_wrap=True
        )
    leave_group()


def _page(folder: Path) -> str:
    """Where the run's page is, or why there is none."""
    try:
        return f"page: {make_page(folder)}"
    except Exception as error:  # the run has ended well, whatever becomes of its page
        return f"note: no page was made: {error}; sparsegate report {folder} tries again"


def parse(argv: list[str]) -> Command[Run[Any]]:
    """The command in these words.

    >>> parse(["lenet300", "--epochs", "3", "--penalty.count", "5"]).run.method.penalty.count
    5.0
    """
    name, flags = name_first(argv, list(RUNS))
    run = named(name or "lenet5")
    method, flags = _without("--method", flags)
    if method and METHODS[method] is not type(run.method):
        run = dataclasses.replace(run, method=METHODS[method]())
    kind: Any = Command[Run[Annotated[type(run.method), FLAT]]]  # type: ignore[misc]
    parsed: Command[Run[Any]] = parse_flags(
        kind,
        flags,
        default=kind(run),
        name=f"sparsegate train {name or 'NAME'} [--method {{{','.join(METHODS)}}}]",
        about=f"{inspect.getdoc(Command)}\n\nNAME: {', '.join(RUNS)}",
    )
    return parsed


def name_first(argv: list[str], known: list[str]) -> tuple[str, list[str]]:
    """The name that comes before all flags, which may be left out to ask for help, and the flags."""
    if argv and not argv[0].startswith("-"):
        return argv[0], argv[1:]
    if not {"-h", "--help"} & set(argv):
        raise ValueError(f"say what to train: {', '.join(known)}")
    return "", argv


def named(name: str) -> Run[Any]:
    """The run of a recipe, or the plain one of a model."""
    if name in PUPILS:
        raise ValueError(
            f"{name} has a teacher and is trained by: python benchmarks/many_seeds.py {name}"
        )
    return RUNS[name]()


def _without(flag: str, words: list[str]) -> tuple[str, list[str]]:
    """The value of a flag that decides which others there are, and the other words."""
    for place, word in enumerate(words):
        if word == flag:
            if place + 1 == len(words):
                raise ValueError(f"{flag} needs a value: {', '.join(METHODS)}")
            return words[place + 1], words[:place] + words[place + 2 :]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2], words[:place] + words[place + 1 :]
    return "", words
