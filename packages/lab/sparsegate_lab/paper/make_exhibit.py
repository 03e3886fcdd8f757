"""Writes what an exhibit found as Markdown, CSV and JSON, with its records and picture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from sparsegate_lab.report import save_figure
from sparsegate_runtime.atomic import write_atomically

from .archive import save_studies
from .exhibit import Exhibit, Studies
from .findings import Findings


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
