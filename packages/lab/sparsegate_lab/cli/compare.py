"""`sparsegate compare`: methods at several rates on any model and data, with equal epochs."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from rich.console import Console

from sparsegate.bench import PLOT_MISSING
from sparsegate.text_table import aligned
from sparsegate_lab.comparison import DENSE, ComparedRun, Comparison
from sparsegate_lab.method import check_keep
from sparsegate_lab.methods import Dense
from sparsegate_lab.recipes import CONTESTANTS
from sparsegate_lab.record import Record
from sparsegate_lab.report import plot_rates, rates_table, save_with_tables
from sparsegate_lab.train import DivergedError, Run, Watcher, train

from .flags import parse_flags
from .progress import Progress
from .train import FLAT, RUNS, name_first

AnyRun = TypeVar("AnyRun")
Told = Callable[[str], None]


@dataclass(frozen=True)
class Command(Generic[AnyRun]):
    """Trains methods at several rates on one model and dataset, and compares their accuracy.

    NAME is a model or a recipe, whose method is replaced; flags change its settings, which all
    methods share. A dense network is trained as the control. An interrupted command resumes when
    repeated; runs that have ended are not trained again.
    """

    run: Annotated[AnyRun, FLAT]

    keeps: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003)
    """Fractions of the weights that are left."""

    methods: tuple[str, ...] = tuple(CONTESTANTS)
    """Methods to compare."""

    seeds: int = 3
    """Seeds for each method and rate, from the run's seed on."""

    folder: Path = Path("runs")
    """Folder of all runs; each run gets a folder inside."""

    out: Path | None = None
    """Files to write: OUT.json, .md, .csv, .svg and .png; default: FOLDER/compare-NAME."""


def main(argv: list[str]) -> None:
    """Parses the command, trains, writes the files, and shows the table."""
    name, command = parse(argv)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    words = shlex.join(["sparsegate", "compare", *argv])
    watch = Progress(console) if console.is_terminal else None
    comparison = compare(command, f"{name} on {command.run.data}", words, console.print, watch)
    console.print(aligned(rates_table(comparison), left=[0]))
    out = command.out or command.folder / f"compare-{name}"
    plots = plot_rates(comparison, save_with_tables(comparison, rates_table(comparison), out))
    console.print(f"{out}.json, .md, .csv" + (", .svg, .png" if plots else f"; {PLOT_MISSING}"))


def parse(argv: list[str]) -> tuple[str, Command[Run[Any]]]:
    """The name and the command in these words.

    >>> parse(["lenet300", "--keeps", "0.1", "0.01", "--epochs", "3"])[1].keeps
    (0.1, 0.01)
    """
    name, flags = name_first(argv, list(RUNS))
    run = dataclasses.replace(RUNS[name or "lenet5"](), method=Dense())
    kind: Any = Command[Run[Annotated[Dense, FLAT]]]
    about = (
        f"{inspect.getdoc(Command)}\n\nNAME: {', '.join(RUNS)}\n\nMethods: {', '.join(CONTESTANTS)}"
    )
    parsed: Command[Run[Any]] = parse_flags(
        kind, flags, default=kind(run), name=f"sparsegate compare {name or 'NAME'}", about=about
    )
    return name, _checked(parsed)


def runs(command: Command[Run[Any]]) -> list[tuple[str, float, Run[Any]]]:
    """Every run with its method's name and rate: the controls first, then the mildest rates."""
    methods = [(DENSE, 1.0, Dense())] + [
        (name, keep, CONTESTANTS[name](keep))
        for keep in sorted(set(command.keeps), reverse=True)
        for name in dict.fromkeys(command.methods)
    ]
    return [
        (name, keep, dataclasses.replace(command.run, method=method, seed=command.run.seed + seed))
        for name, keep, method in methods
        for seed in range(command.seeds)
    ]


def compare(
    command: Command[Run[Any]], title: str, words: str, told: Told, watch: Watcher | None
) -> Comparison:
    """Trains every run that has no record yet."""
    entries: list[ComparedRun] = []
    failed: list[str] = []
    wanted = runs(command)
    for number, (name, keep, run) in enumerate(wanted, start=1):
        about = f"{number}/{len(wanted)}  {name}, keep {keep:g}, seed {run.seed}"
        try:
            record = train(run, folder=command.folder, watch=watch, command=words, pack=False)
        except (ValueError, DivergedError) as error:
            if name == DENSE:  # an error of the control is an error of all
                raise
            failed.append(f"{name}, keep {keep:g}, seed {run.seed}: {error}")
            told(f"{about}: failed: {error}")
            continue
        entries.append(ComparedRun(name, keep, record))
        told(f"{about}: {_about(record)}")
    return Comparison(title, words, tuple(entries), tuple(failed))


def _about(record: Record) -> str:
    return (
        f"validation {record.validation:.2f} %, test {record.test:.2f} %, "
        f"{record.kept:,} of {record.total:,} weights"
    )


def _checked(command: Command[Run[Any]]) -> Command[Run[Any]]:
    if command.seeds < 1:
        raise ValueError(f"seeds is at least 1, got {command.seeds}")
    if not (command.keeps and command.methods):
        raise ValueError("a comparison needs one or more keeps and methods")
    for keep in command.keeps:
        check_keep(keep)
    for name in command.methods:
        CONTESTANTS[name]
    return command
