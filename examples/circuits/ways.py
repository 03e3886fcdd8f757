"""Says which part of a transformer reads what another one has written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from circuit import Circuit
from torch import Tensor
from train import HEADS, LAYERS, WIDTH

COLUMNS = 2 + 2 * LAYERS  # characters, heads and neurons of every layer, prediction


@dataclass(frozen=True)
class Part:
    """A character, a head, a neuron or a prediction."""

    column: int
    kind: str
    index: int


def writers_and_readers(
    weights: dict[str, Tensor], layers: int
) -> Iterator[tuple[str, Part, Tensor]]:
    """Every part that writes to the stream or reads from it, and its weight for each channel."""
    for index, row in enumerate(weights["character.weight"]):
        yield "write", Part(0, "character", index), row
    if weights["position.weight"].any():
        yield "write", Part(0, "position", 0), weights["position.weight"].abs().amax(0)
    for layer in range(layers):
        inside = {
            name: weights[f"layers.{layer}.{name}.weight"]
            for name in ("query", "key", "value", "heads_out", "neurons", "neurons_out")
        }
        size = WIDTH // HEADS
        for head in range(HEADS):
            part, rows = Part(1 + 2 * layer, "head", head), slice(head * size, (head + 1) * size)
            for kind in ("query", "key", "value"):
                yield kind, part, inside[kind][rows].abs().amax(0)
            yield "write", part, inside["heads_out"][:, rows].abs().amax(1)
        for index in range(len(inside["neurons"])):
            part = Part(2 + 2 * layer, "neuron", index)
            yield "read", part, inside["neurons"][index]
            yield "write", part, inside["neurons_out"][:, index]
    for index, row in enumerate(weights["out.weight"]):
        yield "read", Part(1 + 2 * layers, "prediction", index), row


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
    wanted = {Part(COLUMNS - 1, "prediction", then)}
    kept: dict[tuple[Part, Part], float] = {}
    for column in range(COLUMNS - 1, 0, -1):
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
