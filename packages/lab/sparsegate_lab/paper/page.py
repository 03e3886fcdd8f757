"""The page that shows every exhibit with its verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparsegate.text_table import markdown

from .findings import Findings, Row

HEAD = """# The paper, table by table

Made by `sparsegate reproduce all` from the records under `results/`; do not edit. Each part is made alone by
`sparsegate reproduce NAME`, which also writes CSV, JSON and, for figures, SVG and PNG. Ours are means over three seeds,
with the standard deviation between them.

Verdicts: *agrees*, within the tolerance that is stated with its reason; *ahead*, beyond it on the better side;
*differs*, beyond it on the other; *holds* or *does not hold*, for sentences; *not run yet*, without a record."""


def reproduction_page(
    found: Mapping[str, Findings], *, pictures: Iterable[str] = (), beside: str = "reproduction"
) -> str:
    """The page of all exhibits; `pictures` are the names of those that have one in the folder `beside` it."""
    shown = set(pictures)
    rows: list[Row] = [("exhibit", "what", "verdicts")]
    rows += [(f"[`{name}`](#{name})", each.title, each.summary) for name, each in found.items()]
    parts = [
        _part(name, each, f"{beside}/{name}.svg" if name in shown else "")
        for name, each in found.items()
    ]
    return "\n\n".join([HEAD, markdown(rows), *parts]) + "\n"


def _part(name: str, findings: Findings, picture: str) -> str:
    """An exhibit under its name, with its own heads made smaller."""
    _, _, body = findings.to_markdown().partition("\n\n")
    image = f"![{findings.title}]({picture})\n\n" if picture else ""
    return f"## {name}\n\n**{findings.title}.** `sparsegate reproduce {name}`\n\n{image}{body.rstrip()}"
