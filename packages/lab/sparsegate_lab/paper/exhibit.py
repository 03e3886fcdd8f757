"""CONTRACT Exhibit: one table or figure of the paper, from runs to verdicts."""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsegate_lab.report import save_figure
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run
from sparsegate_runtime.atomic import write_atomically

from .archive import save_studies
from .findings import Findings

Studies = Mapping[str, Study]


class Exhibit(abc.ABC):
    """A table or figure of the paper: the runs that it needs, and what their records show.

    Each exhibit is a frozen dataclass in its own file. The registry `EXHIBITS` makes it a name for
    `sparsegate reproduce` and a section of docs/reproduction.md, and adds it to the tests.
    """

    @abc.abstractmethod
    def title(self) -> str:
        """One line: its place in the paper and what it shows."""

    def plan(self) -> dict[str, Run[Any]]:
        """The runs by name; each is trained with every seed. Empty for a drawing."""
        return {}

    def wanted(self) -> str:
        """A pattern for studies under results/ to read regardless of runs; empty by default."""
        return ""

    @abc.abstractmethod
    def findings(self, studies: Studies) -> Findings:
        """Returns the table, the comparisons with the paper, and the verdicts."""

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws into an empty matplotlib figure; returns False if there is nothing to draw."""
        return False

    def has_picture(self) -> bool:
        """Whether there is a picture once everything has been trained."""
        return type(self).draw is not Exhibit.draw


@dataclass(frozen=True)
class Made:
    """The files of an exhibit."""

    name: str
    findings: Findings
    files: tuple[Path, ...]

    @property
    def pictures(self) -> list[Path]:
        """Its picture, as SVG and PNG; empty for a table, or without matplotlib."""
        return [path for path in self.files if path.suffix in (".svg", ".png")]


def make(name: str, exhibit: Exhibit, studies: Studies, *, folder: Path) -> Made:
    """Writes an exhibit's files into a folder and returns them."""
    folder.mkdir(parents=True, exist_ok=True)
    findings, stem = exhibit.findings(studies), folder / name
    texts = {
        ".md": findings.to_markdown(),
        ".csv": findings.to_csv(),
        ".json": json.dumps(findings.to_json(), indent=1) + "\n",
    }
    files = [stem.with_suffix(ending) for ending in texts]
    for path, text in zip(files, texts.values(), strict=True):
        write_atomically(path, text.encode())
    if studies:
        files.append(folder / "records.json")
        save_studies(files[-1], findings.title, f"sparsegate reproduce {name}", studies)
    files += save_figure(lambda figure: exhibit.draw(figure, studies), stem)
    return Made(name, findings, tuple(files))
