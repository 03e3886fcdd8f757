"""`sparsegate frontier`: many prices at once, and the curve of accuracy over weights."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from rich.console import Console

from sparsegate.bench import PLOT_MISSING
from sparsegate.text_table import aligned
from sparsegate_lab.batched import train_many
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.record import Record
from sparsegate_lab.report import frontier_table, plot_frontier, save_with_tables
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run, train

from .flags import parse_flags
from .many_progress import ManyProgress
from .progress import Progress
from .train import FLAT, RUNS, name_first

AnyRun = TypeVar("AnyRun")


@dataclass(frozen=True)
class Command(Generic[AnyRun]):
    """Trains many networks at once, at prices from low to high, and plots accuracy over weights.

    With --targets, the networks keep given fractions of their weights instead. NAME is a recipe of
    learned gates or one of the models below; flags change its settings. An interrupted command
    resumes when repeated; networks that have ended are not trained again.
    """

    run: Annotated[AnyRun, FLAT]

    members: int = 32
    """Networks to train at once."""

    seeds: int = 1
    """Seeds for each price; more seeds leave fewer prices for the same number of members."""

    low: float = 1.0
    """The lowest price (penalty.count)."""

    high: float = 40.0
    """The highest price; the others lie between, spaced by equal factors."""

    targets: tuple[float, ...] = ()
    """Fractions of the weights to keep, instead of prices; trained one after the other."""

    folder: Path = Path("runs")
    """Folder of all runs; each network gets a folder inside."""

    out: Path | None = None
    """Files to write: OUT.json, .md, .csv, .svg and .png; default: FOLDER/frontier-NAME."""


def main(argv: list[str]) -> None:
    """Parses the command, trains, writes the files, and shows the table."""
    name, command = parse(argv)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    words = shlex.join(["sparsegate", "frontier", *argv])
    records = _train(command, words, console)
    study = Study(f"{name}: accuracy over weights, {len(records)} networks", words, tuple(records))
    console.print(aligned(frontier_table(study)))
    out = command.out or command.folder / f"frontier-{name}"
    plots = plot_frontier(study, save_with_tables(study, frontier_table(study), out))
    console.print(f"{out}.json, .md, .csv" + (", .svg, .png" if plots else f"; {PLOT_MISSING}"))


def _train(command: Command[Run[Any]], words: str, console: Console) -> list[Record]:
    if not command.targets:
        watch = ManyProgress(console)
        return train_many(members(command), folder=command.folder, watch=watch, command=words)
    runs = targeted(command)
    return [
        train(run, folder=command.folder, watch=Progress(console), command=words) for run in runs
    ]


def parse(argv: list[str]) -> tuple[str, Command[Run[Any]]]:
    """The name and the command in these words.

    >>> parse(["lenet300", "--members", "8", "--epochs", "3"])[1].members
    8
    """
    known = [each for each in RUNS if isinstance(RUNS[each]().method, LearnedGates)]
    name, flags = name_first(argv, known)
    run = RUNS[name or "lenet5"]()
    if not isinstance(run.method, LearnedGates):
        raise ValueError(
            f"a frontier varies the price, and {name} uses {run.method_name}, which has none; "
            "use a recipe of learned gates"
        )
    kind: Any = Command[Run[Annotated[LearnedGates, FLAT]]]
    about = f"{inspect.getdoc(Command)}\n\nNAME: {', '.join(known)}"
    parsed: Command[Run[Any]] = parse_flags(
        kind, flags, default=kind(run), name=f"sparsegate frontier {name or 'NAME'}", about=about
    )
    return name, _checked(parsed)


def members(command: Command[Run[Any]]) -> list[Run[Any]]:
    """The run at every price, with every seed."""
    number = command.members // command.seeds
    return _varied(command, "penalty", "count", prices(number, command.low, command.high))


def targeted(command: Command[Run[Any]]) -> list[Run[Any]]:
    """The run with every target and every seed."""
    return _varied(command, "target", "keep", sorted(command.targets))


def _varied(
    command: Command[Run[Any]], group: str, setting: str, values: Sequence[float]
) -> list[Run[Any]]:
    """The run with each value of a setting of its penalty or target, with every seed."""
    method, seed = command.run.method, command.run.seed
    changed = [
        dataclasses.replace(
            method, **{group: dataclasses.replace(getattr(method, group), **{setting: value})}
        )
        for value in values
    ]
    return [
        dataclasses.replace(command.run, seed=seed + more, method=each)
        for each in changed
        for more in range(command.seeds)
    ]


def prices(number: int, low: float, high: float) -> Sequence[float]:
    """So many prices between two, by equal factors.

    >>> prices(3, 1.0, 4.0)
    [1.0, 2.0, 4.0]
    """
    return [
        float(f"{low * (high / low) ** (place / max(1, number - 1)):.4g}")
        for place in range(number)
    ]


def _checked(command: Command[Run[Any]]) -> Command[Run[Any]]:
    if command.targets:
        return _checked_targets(command)
    if command.run.method.target:
        raise ValueError(
            "a frontier varies the price or the target; give the fractions to keep with "
            "--targets, such as --targets 0.1 0.03 0.01"
        )
    if not (
        command.seeds >= 1
        and command.members >= command.seeds
        and command.members % command.seeds == 0
    ):
        raise ValueError(
            "members is the number of all networks, a multiple of seeds, "
            f"got {command.members} and {command.seeds}"
        )
    if not 0 < command.low <= command.high:
        raise ValueError(f"wanted 0 < low <= high, got low={command.low}, high={command.high}")
    return command


def _checked_targets(command: Command[Run[Any]]) -> Command[Run[Any]]:
    usual = {each.name: each.default for each in dataclasses.fields(Command)}
    idle = [name for name in ("members", "low", "high") if getattr(command, name) != usual[name]]
    if idle:
        raise ValueError(f"with --targets, {' and '.join(idle)} would have no effect; leave it out")
    if len(set(command.targets)) < len(command.targets):
        raise ValueError(f"targets are different fractions, got {command.targets}")
    if command.seeds < 1:
        raise ValueError(f"seeds is at least 1, got {command.seeds}")
    targeted(command)  # raises for a fraction that is none
    return command
