"""`sparsegate sweep`: trains a recipe with many settings, and shows the best."""

from __future__ import annotations

import shlex
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro
from rich.console import Console

from sparsegate.bench import PLOT_MISSING
from sparsegate.text_table import aligned
from sparsegate_lab.report import save_with_tables
from sparsegate_lab.sweep import Choose, Vary, plot_sweep, sweep, sweep_table
from sparsegate_lab.train import Run

from .progress import Progress
from .train import FLAT, described_run, parse_described

AnyRun = TypeVar("AnyRun")
Words = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Command(Generic[AnyRun]):
    """Trains the network that NAME and the flags describe with many settings, and shows the best.

    NAME is a recipe or a model. An interrupted sweep continues when the command is repeated. The
    same command on several machines, with a shared folder or --storage, shares the trials.
    """

    run: Annotated[AnyRun, FLAT]

    vary: Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction] = ()
    """A setting to vary: NAME LOW HIGH, and log for a logarithmic range. Can be repeated."""

    choose: Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction] = ()
    """A setting and the values to choose from: NAME VALUE VALUE ... Can be repeated."""

    trials: int = 20
    """Number of trials, over all machines; to continue, repeat the command with more."""

    objectives: tuple[Literal["validation", "bytes", "weights"], ...] = ("validation", "bytes")
    """What to optimize: validation accuracy, bytes of the .sg file, weights that are left."""

    stop_early: bool = True
    """End trials early that are worse than earlier trials at the same time."""

    folder: Path = Path("runs")
    """Folder of all runs; each trial gets a folder inside."""

    storage: str = ""
    """Where machines record trials: a shared file, or a URL such as postgresql://HOST/NAME."""

    out: Path | None = None
    """Files to write: OUT.json, .md, .csv, .svg and .png; default: the sweep's name in FOLDER."""


def main(argv: list[str]) -> None:
    """Parses the command, trains, writes the files, and shows the table."""
    command = parse(argv)
    _be_quiet()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    result = sweep(
        command.run,
        space_of(command),
        trials=command.trials,
        objectives=command.objectives,
        folder=command.folder,
        storage=command.storage,
        stop_early=command.stop_early,
        watch=Progress(console),
        say=console.print,
        command=shlex.join(["sparsegate", "sweep", *argv]),
    )
    console.print(aligned(sweep_table(result)))
    out = command.out or command.folder / result.name
    plots = plot_sweep(result, save_with_tables(result, sweep_table(result), out))
    drawn = f", {out}.svg, {out}.png" if plots else "" if not result.ended else f"; {PLOT_MISSING}"
    console.print(f"{out}.json, {out}.md, {out}.csv{drawn}")


def parse(argv: list[str]) -> Command[Run[Any]]:
    """The command in these words.

    >>> parse(["lenet300", "--vary", "lr", "0.01", "0.1", "log", "--epochs", "3"]).vary
    (('lr', '0.01', '0.1', 'log'),)
    """
    command: Command[Run[Any]] = parse_described(described_run(argv), Command, verb="sweep")
    given = {word.partition("=")[0][2:].replace("_", "-") for word in argv if word[:2] == "--"}
    for words in (*command.vary, *command.choose):
        if words and words[0].replace("_", "-") in given:
            raise ValueError(f"{words[0]} is varied, so --{words[0]} has no effect; leave it out")
    return command


def space_of(command: Command[Run[Any]]) -> list[Vary | Choose]:
    """What varies."""
    return [
        *(Vary.from_words(words) for words in command.vary),
        *(Choose.from_words(words) for words in command.choose),
    ]


def _be_quiet() -> None:
    """Keeps Optuna from printing a line on every study that it opens."""
    try:
        import optuna
    except ImportError:
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
