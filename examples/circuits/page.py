"""Writes a page that shows the circuits of a sparse transformer: python page.py circuits.sg TEXT."""

from __future__ import annotations

import argparse
import html
from collections import defaultdict
from pathlib import Path

from circuit import Behaviour, Circuit, Part, find, writers_and_readers
from train import LAYERS, Transformer, read

import sparsegate as sg

BEHAVIOURS = (
    Behaviour("After q comes u", "q", "u"),
    Behaviour("A comma is followed by a space", ",", " "),
    Behaviour("A blank line begins with a capital: a speaker", ":\n", "I"),
    Behaviour("th becomes the", " th", "e"),
    Behaviour("A sentence ends, and the line does", "?", "\n"),
)
COLUMNS = [
    "characters",
    *(f"{kind} {1 + layer}" for layer in range(LAYERS) for kind in ("heads", "neurons")),
    "prediction",
]
STEP, GAP, TOP, LEFT = 190, 30, 60, 90
NAMES = {" ": "space", "\n": "new line"}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1180px; margin: 2rem auto; padding: 0 1rem;
  color: #1b2733; background: #fff }
figure { margin: 0 0 3rem; overflow-x: auto } svg { min-width: 900px; width: 100%; height: auto }
text { font: 13px system-ui, sans-serif; fill: currentColor; text-anchor: middle }
circle { fill: #2f6fb0 } .character, .position { fill: #7a8894 } .prediction { fill: #c4561c }
.neuron { fill: #2c8a63 } path { fill: none; stroke-linecap: round } .more { stroke: #2f6fb0 }
.less { stroke: #c4561c } code { background: #eef2f5; padding: 0 .3em }
@media (prefers-color-scheme: dark) { body { color: #e4eaf0; background: #12181f }
  code { background: #22303c } }
"""


def edges_of(circuit: Circuit) -> dict[tuple[Part, Part], float]:
    """Which part reads what another has written, and how strongly: products over the channels."""
    found: dict[tuple[Part, Part], float] = defaultdict(float)
    parts = [each for each in writers_and_readers(circuit.weights, LAYERS) if each[2].any()]
    for kind, source, written in parts:
        for way, reader, weights in parts:
            if kind == "write" and way != "write" and source.column < reader.column:
                product = written * weights
                found[source, reader] += float(product[product.abs().argmax()])
    return {pair: value for pair, value in found.items() if value}


def used(circuit: Circuit, letters: str) -> dict[tuple[Part, Part], float]:
    """The edges on a way from what the network reads to the character that it predicts."""
    edges = edges_of(circuit)
    then = letters.index(circuit.behaviour.then)
    wanted = {Part(len(COLUMNS) - 1, "prediction", then)}
    kept: dict[tuple[Part, Part], float] = {}
    for column in range(len(COLUMNS) - 1, 0, -1):
        for (source, reader), value in edges.items():
            if reader.column == column and reader in wanted:
                kept[source, reader] = value
                wanted.add(source)
    ends = {letters.index(letter) for letter in circuit.behaviour.ends}
    return {
        (source, reader): value
        for (source, reader), value in kept.items()
        if source.kind != "character" or source.index in ends
    }


def drawing(circuit: Circuit, letters: str) -> str:
    """The circuit as an SVG."""
    edges = used(circuit, letters)
    columns: dict[int, list[Part]] = defaultdict(list)
    for part in sorted({part for pair in edges for part in pair}, key=lambda part: part.index):
        columns[part.column].append(part)
    place = {
        part: (LEFT + STEP * column, TOP + GAP * row + GAP * (_most(columns) - len(parts)) / 2)
        for column, parts in columns.items()
        for row, part in enumerate(parts)
    }
    largest = max(map(abs, edges.values()), default=1.0)
    lines = [
        _line(*place[source], *place[reader], value / largest)
        for (source, reader), value in edges.items()
    ]
    dots = [_dot(part, *place[part], letters) for part in place]
    heads = [
        f'<text x="{LEFT + STEP * at}" y="24">{name}</text>' for at, name in enumerate(COLUMNS)
    ]
    size = f"0 0 {2 * LEFT + STEP * (len(COLUMNS) - 1)} {TOP + GAP * _most(columns) + 20}"
    return f'<svg viewBox="{size}" role="img">{"".join(heads + lines + dots)}</svg>'


def _most(columns: dict[int, list[Part]]) -> int:
    return max(map(len, columns.values()), default=1)


def _line(left: float, top: float, right: float, bottom: float, share: float) -> str:
    middle, width = (left + right) / 2, 0.5 + 4 * abs(share)
    way = f"M{left:.0f} {top:.0f}C{middle:.0f} {top:.0f} {middle:.0f} {bottom:.0f} {right:.0f} {bottom:.0f}"
    return f'<path class="{"more" if share > 0 else "less"}" d="{way}" stroke-width="{width:.1f}" opacity="0.6"/>'


def _dot(part: Part, left: float, top: float, letters: str) -> str:
    letter = letters[part.index] if part.kind in ("character", "prediction") else ""
    name = NAMES.get(letter, letter) or f"{part.kind} {part.index}"
    return f'<circle class="{part.kind}" cx="{left:.0f}" cy="{top:.0f}" r="6"/><text x="{left:.0f}" y="{top - 10:.0f}">{html.escape(name)}</text>'


def section(circuit: Circuit, letters: str, total: int) -> str:
    """The heading, the numbers and the drawing of a circuit."""
    parts = {part for pair in used(circuit, letters) for part in pair}
    heads, neurons = (sum(part.kind == kind for part in parts) for kind in ("head", "neuron"))
    begin, then = (
        html.escape(repr(text)) for text in (circuit.behaviour.ends, circuit.behaviour.then)
    )
    return (
        f"<h2>{html.escape(circuit.behaviour.name)}</h2><p>After <code>{begin}</code>, the whole "
        f"network gives <code>{then}</code> a probability of {circuit.probability:.0%} (geometric "
        f"mean of {circuit.num_examples} places in unseen text). With only {circuit.num_weights:,} of its "
        f"{total:,} weights, it is {circuit.probability_alone:.0%}. The way there leads through "
        f"{heads} heads and {neurons} neurons.</p><figure>{drawing(circuit, letters)}</figure>"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--out", type=Path, default=Path("circuits.html"))
    options = parser.parse_args()
    letters, _, unseen = read(options.text)
    model = sg.load(options.network).into(Transformer(letters)).eval()
    total = sum(int(each.count_nonzero()) for each in model.parameters() if each.ndim > 1)
    circuits = [find(model, behaviour, unseen) for behaviour in BEHAVIOURS]
    sections = "".join(section(circuit, letters, total) for circuit in circuits)
    options.out.write_text(
        f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Circuits of a sparse transformer</title><style>{STYLE}</style>"
        f"<h1>Circuits of a transformer with {total:,} weights</h1><p>Each drawing shows the "
        "weights without which the network would not do one thing. Blue lines raise what they "
        f"lead to, orange lines lower it; lines of heads have no sign.</p>{sections}"
    )
    for circuit in circuits:
        print(f"{circuit.behaviour.name}: {circuit.num_weights} of {total} weights")


if __name__ == "__main__":
    main()
