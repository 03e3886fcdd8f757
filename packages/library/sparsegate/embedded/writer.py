"""Collects the text of a C file: arrays in flash, functions, and pointers to tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.engine import network as n

from .arena import Arena
from .nodes import Prepared, TensorScale

C_TYPES = {"f4": "float", "i1": "int8_t", "u1": "uint8_t", "i2": "int16_t", "i4": "int32_t"}
LINE = 100


@dataclass(eq=False)
class Writer:
    """Collects the parts of a C file while a network is written."""

    prepared: Prepared
    arena: Arena
    functions: dict[str, str] = field(default_factory=dict)
    """The text of each function of C by its name, in the order in which they are needed."""
    definitions: list[str] = field(default_factory=list)
    """Arrays and structures."""
    flash: int = 0
    """Bytes of arrays and structures on a processor of 32 bits."""
    most_in_row: int = 1
    """The weights of the longest row that is stored with distances."""
    weights: int = 0
    """The weights that are stored and not zero."""
    _names: dict[tuple[str, bytes], str] = field(default_factory=dict)

    def need(self, name: str, text: str) -> None:
        """Adds a function to the file, unless the file already has it."""
        self.functions.setdefault(name, text.strip("\n"))

    def array(self, values: NDArray[np.generic] | None, c_type: str = "") -> str:
        """The name of an array in flash; equal arrays are stored once. None is a null pointer."""
        if values is None:
            return "0"
        c_type = c_type or C_TYPES[values.dtype.str[1:]]
        key = c_type, values.tobytes()
        if key not in self._names:
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise ValueError("a number exceeds single precision; scale the weights down")
            name = self._names[key] = f"data{len(self._names)}"
            head = f"static const {c_type} {name}[{max(1, values.size)}] = {{"
            self.definitions.append(wrapped(head, _words(values.reshape(-1)), "};"))
            self.flash += values.nbytes
        return self._names[key]

    def structure(self, kind: str, fields: list[str], num_bytes: int) -> str:
        """The name of a structure in flash."""
        name = f"{kind}{len(self.definitions)}"
        head = f"static const struct {kind} {name} = {{"
        self.definitions.append(wrapped(head, fields, "};"))
        self.flash += num_bytes
        return name

    def scale(self, node: n.Node) -> TensorScale | None:
        """What the 8-bit values of a tensor stand for; None for other tensors."""
        return self.prepared.scales.get(node)

    def c_type(self, node: n.Node) -> str:
        """The type of a tensor's elements."""
        return c_type(node, self.prepared.scales)

    def pointer(self, node: n.Node) -> str:
        """The address of a tensor's first element."""
        place = self.arena.places[node]
        if place.memory == "arena":
            return f"(void *)(memory + {place.offset})"
        return f"{place.memory} + {place.offset}" if place.offset else place.memory

    def scratch(self, node: n.Node) -> str:
        """The address of the memory that a step uses in addition."""
        return f"(void *)(memory + {self.arena.scratch[node]})"

    def opened(self, node: n.Node) -> list[str]:
        """Declares `y`, and `a`, `b` ... for the inputs."""
        lines = [
            f"const {self.c_type(read)} *{letter} = {self.pointer(read)};"
            for letter, read in zip("abcd", node.inputs, strict=False)
        ]
        return [*lines, f"{self.c_type(node)} *y = {self.pointer(node)};"]


Emitter: TypeAlias = Callable[[Writer, n.Node], list[str]]


def c_type(node: n.Node, scales: Mapping[n.Node, TensorScale]) -> str:
    """The type of a tensor's elements in C."""
    if isinstance(node, n.Input) and node.kind == "int64":
        return "int64_t"
    if isinstance(node, n.Constant) and node.value.dtype == bool:
        return "uint8_t"
    return "int8_t" if node in scales else "float"


def width(node: n.Node, scales: Mapping[n.Node, TensorScale]) -> int:
    """Bytes of an element."""
    return {"int64_t": 8, "float": 4}.get(c_type(node, scales), 1)


def wrapped(head: str, words: list[str], tail: str) -> str:
    """Words in lines of at most a hundred characters."""
    lines, line = [head], "   "
    for word in words:
        if len(line) + len(word) + 2 > LINE:
            lines.append(line)
            line = "   "
        line += f" {word},"
    return "\n".join([*lines, line.rstrip(","), tail])


def _words(values: NDArray[np.generic]) -> list[str]:
    if not values.size:
        return ["0"]
    if values.dtype.kind != "f":
        return [str(int(value)) for value in values.astype(np.int64)]
    return [_short(float(value)) for value in values]


def _short(value: float) -> str:
    """The shortest of three ways to write a number of single precision."""
    assert math.isfinite(value)
    for digits in (6, 8):
        text = f"{value:.{digits}g}"
        if np.float32(text) == np.float32(value):
            return text
    return f"{value:.9g}"
