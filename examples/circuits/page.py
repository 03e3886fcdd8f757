"""Writes a page that shows the circuits of a sparse transformer.

Usage: python page.py circuits.sg TEXT
"""

from __future__ import annotations

import argparse
import html
from pathlib import Path

from circuit import Behaviour, Circuit, find
from drawing import drawing
from train import Transformer, read
from ways import used

import sparsegate as sg

BEHAVIOURS = (
    Behaviour("After q comes u", "q", "u"),
    Behaviour("A comma is followed by a space", ",", " "),
    Behaviour("A speech begins with I", ":\n", "I"),
    Behaviour("th becomes the", " th", "e"),
    Behaviour("A sentence ends, and the line does", "?", "\n"),
)
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
        f"mean of {circuit.num_examples} places in unseen text). With only {circuit.num_weights:,} "
        f"of its {total:,} weights, it is {circuit.probability_alone:.0%}. The way there leads "
        f"through {heads} heads and {neurons} "
        f"neurons.</p><figure>{drawing(circuit, letters)}</figure>"
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
