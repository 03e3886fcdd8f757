"""`sparsegate reproduce`: makes a table or figure of the paper, next to the printed numbers."""

from __future__ import annotations

import inspect
import shlex
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich import progress
from rich.console import Console

from sparsegate.bench import PLOT_MISSING
from sparsegate.text_table import aligned
from sparsegate_lab.paper import (
    EXHIBITS,
    Archive,
    Made,
    in_words,
    make,
    reproduction_page,
    seconds_for,
    train_all,
)
from sparsegate_lab.train import Run

from .flags import parse_flags

ALL = "all"
LONG = 3600.0  # seconds; longer training is done only if asked for


@dataclass(frozen=True)
class Command:
    """Makes a table or figure of the paper: ours, the paper's, the difference and a verdict.

    NAME is an exhibit, or all; without it the exhibits are listed. Existing records are used, and
    missing ones are trained first, unless that takes long. An interrupted command resumes when
    repeated.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = ""
    """The exhibit, or all."""

    folder: Path = Path("reproduced")
    """Folder for tables and pictures; each exhibit gets a folder inside."""

    runs: Path = Path("runs")
    """Folder of all runs; each run gets a folder inside, named after its settings."""

    results: Path = Path("results")
    """Folder of committed records, which count as done."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of every run."""

    processes: int = 1
    """Runs at the same time; they share the threads."""

    fresh: bool = False
    """Ignore committed records; runs in the folder of runs still count."""

    train: Literal["short", "always", "never"] = "short"
    """When to train missing runs: if it takes less than an hour (short), always, or never."""

    page: Path = Path("docs/reproduction.md")
    """The page that `all` writes, with its pictures in a folder next to it."""


def main(argv: list[str]) -> None:
    """Parses the command, trains what is missing, and shows the findings."""
    about = f"{inspect.getdoc(Command)}\n\nNAME: {', '.join([*EXHIBITS, ALL])}"
    command: Command = parse_flags(Command, argv, name="sparsegate reproduce", about=about)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if not command.name:
        console.print(_listed())
        return
    names = list(EXHIBITS) if command.name == ALL else [command.name]
    _train(names, command, shlex.join(["sparsegate", "reproduce", *argv]), console)
    archive = _archive(command)
    made = [_made(name, archive, command) for name in names]
    for each in made:
        _show(each, console)
    if command.name == ALL:
        _write_page(made, command.page, console)


def _listed() -> str:
    width = max(map(len, EXHIBITS))
    lines = [f"  {name:{width}}  {exhibit.title()}" for name, exhibit in EXHIBITS.items()]
    return "\n".join(
        [
            "usage: sparsegate reproduce NAME",
            "",
            *lines,
            f"  {ALL:{width}}  Everything, and a page of it",
        ]
    )


def _archive(command: Command) -> Archive:
    committed = command.results if command.results.is_dir() and not command.fresh else None
    return Archive(results=committed, runs=command.runs)


def _train(names: list[str], command: Command, words: str, console: Console) -> None:
    """Trains what has no record, and says beforehand how long it will take."""
    archive = _archive(command)
    runs = {
        run.name: run for name in names for run in archive.missing(EXHIBITS[name], command.seeds)
    }
    if not runs:
        return
    if command.train == "never":
        console.print(f"{len(runs)} runs have no record and are left out")
        return
    waiting = list(runs.values())
    console.print(f"{len(waiting)} runs have no record; timing some steps of them ...")
    seconds = seconds_for(waiting, archive.records(), processes=command.processes)
    if command.train == "short" and seconds > LONG:
        console.print(
            f"training them takes about {in_words(seconds)} on this machine; left out. To train "
            "them, pass --train always"
        )
        return
    console.print(
        f"training takes about {in_words(seconds)} on this machine; an interrupted command resumes"
    )
    _watched(waiting, command, words, console)


def _watched(runs: list[Run[Any]], command: Command, words: str, console: Console) -> None:
    """Trains with one bar over all epochs of all runs."""
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{len(runs)} runs", total=sum(run.epochs for run in runs))

        def told(epochs: float, about: str) -> None:
            bar.update(task, advance=epochs, description=about)

        train_all(runs, folder=command.runs, command=words, processes=command.processes, told=told)


def _made(name: str, archive: Archive, command: Command) -> Made:
    exhibit = EXHIBITS[name]
    return make(
        name, exhibit, archive.studies(exhibit, command.seeds), folder=command.folder / name
    )


def _show(made: Made, console: Console) -> None:
    """Prints the table, its verdicts on the paper, and the path."""
    findings = made.findings
    parts = [findings.title, aligned(list(findings.rows)) if findings.rows else ""]
    parts += [f"{each.verdict}: {each.text} ({each.evidence})" for each in findings.claims]
    parts += [*findings.notes, findings.summary, ", ".join(map(str, made.files))]
    if EXHIBITS[made.name].has_picture() and find_spec("matplotlib") is None:
        parts.append(PLOT_MISSING)
    console.print("\n".join(part for part in parts if part) + "\n")


def _write_page(made: list[Made], page: Path, console: Console) -> None:
    """Writes the page, and the pictures into a folder next to it."""
    beside = page.with_suffix("")
    beside.mkdir(parents=True, exist_ok=True)
    for each in made:
        for picture in each.pictures:
            if picture.suffix == ".svg":
                shutil.copyfile(picture, beside / picture.name)
    drawn = [each.name for each in made if (beside / f"{each.name}.svg").exists()]
    page.write_text(
        reproduction_page(
            {each.name: each.findings for each in made}, pictures=drawn, beside=beside.name
        )
    )
    console.print(str(page))
