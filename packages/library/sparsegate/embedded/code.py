"""Writes a network as one C file and its header, with tables of weights and an arena."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from sparsegate_runtime.engine import network as n
from sparsegate_runtime.version import VERSION

from . import layers, maps, moves, reductions
from .arena import Arena, plan
from .moves import as_int8
from .nodes import FusedLayer, Prepared, StatefulRecurrent, TensorScale, ToFloat, ToInt8
from .writer import Emitter, Writer, c_type, width

EMITTERS: dict[type[n.Node], Emitter] = {
    FusedLayer: layers.layer,
    n.TransposedConv: layers.transposed,
    StatefulRecurrent: layers.recurrent,
    n.Map: maps.function,
    n.Reshape: moves.copy,
    n.Permute: moves.copy,
    n.Slice: moves.copy,
    n.Expand: moves.copy,
    n.Join: moves.join,
    n.Pad: moves.pad,
    n.Upsample: moves.upsample,
    n.Embedding: moves.embedding,
    ToInt8: moves.to_int8,
    ToFloat: moves.to_float,
    n.Pool: reductions.pool,
    n.Reduce: reductions.reduce,
    n.Softmax: reductions.softmax,
    n.LayerNorm: reductions.layer_norm,
    n.GroupNorm: reductions.group_norm,
    n.Product: reductions.product,
    n.Attention: reductions.attention,
}
"""How to write each kind of node."""


@dataclass(frozen=True)
class Tables:
    """A network in C, and the memory that it takes."""

    source: str
    header: str
    flash: int
    """Bytes of weights and tables; the program's code comes on top."""
    ram: int
    """Bytes of the arena; inputs and outputs are the caller's."""
    num_weights: int
    """Weights that are stored and not zero."""


def tables(prepared: Prepared, name: str, *, header: str | None = None) -> Tables:
    """The C code of a network.

    Args:
        prepared: the network.
        name: the prefix of what a program calls, an identifier.
        header: file name of the header, `NAME.h` if None.

    """
    network = prepared.network
    fixed, copies = _fixed(network)
    scratch = {node: _scratch(node, prepared.scales) for node in network.nodes}
    arena = plan(network, fixed, lambda node: width(node, prepared.scales), scratch)
    writer = Writer(prepared, arena)
    constants = [_constant(writer, node, fixed) for node in network.nodes]
    steps = [_step(writer, node) for node in network.nodes]
    steps += [_copied(writer, node, name) for node, name in copies]
    words = {
        "version": VERSION,
        "include": header or f"{name}.h",
        "functions": "\n\n".join(writer.functions.values()),
        "row_count": _row_count(writer),
        "data": "\n".join([*writer.definitions, *filter(None, constants)]),
        "parameters": _parameters(network),
        "steps": "\n".join(filter(None, steps)),
        "flash": f"{writer.flash:,}",
        "ram": f"{arena.num_bytes:,}",
        "arena": str(max(4, -(-arena.num_bytes // 4) * 4)),
        "kinds": "int8" if prepared.small_weights else "fp32",
        "weights": f"{writer.weights:,}",
        "sizes": _sizes(network),
        "inputs": _shapes(network.inputs, "input"),
        "outputs": _shapes(network.outputs, "output"),
    }
    return Tables(
        _filled(SOURCE, words, name),
        _filled(HEADER, words, name),
        writer.flash,
        arena.num_bytes,
        writer.weights,
    )


def _filled(template: str, words: Mapping[str, str], name: str) -> str:
    """A template with these words in braces replaced, and the name for NAME."""
    for word, text in words.items():
        template = template.replace(f"@{word}@", text)
    template = re.sub(r"\bPREFIX(?=_)", name.upper(), template)
    return re.sub(r"\bNAME(?=_)", name, template)


def _fixed(network: n.Network) -> tuple[dict[n.Node, str], list[tuple[n.Node, str]]]:
    """The tensors outside of the arena, and outputs that must be copied to the caller."""
    fixed: dict[n.Node, str] = {}
    for index, given in enumerate(network.inputs):
        fixed[given] = _named("input", index, len(network.inputs))
    constants = [node for node in network.nodes if isinstance(node, n.Constant)]
    fixed |= {node: f"constant{index}" for index, node in enumerate(constants)}
    copies: list[tuple[n.Node, str]] = []
    for index, node in enumerate(network.outputs):
        name = _named("output", index, len(network.outputs))
        source = node
        while isinstance(source, n.Reshape):
            source = source.inputs[0]
        if source in fixed or isinstance(source, n.Slice | n.Permute | n.Expand):
            copies.append((node, name))
        else:
            fixed[source] = name
    return fixed, copies


def _named(word: str, index: int, count: int) -> str:
    return word if count == 1 else f"{word}{index}"


def _scratch(node: n.Node, scales: Mapping[n.Node, TensorScale]) -> int:
    """Bytes that a step uses in addition to its tensors."""
    if isinstance(node, FusedLayer) and isinstance(node.core, n.Conv):
        return layers.conv_scratch(node, scales.get(node.inputs[0]))
    if isinstance(node, StatefulRecurrent):
        return 8 * int(node.weight[0].shape[0])
    return 4 * node.inputs[1].shape[2] if isinstance(node, n.Attention) else 0


def _constant(writer: Writer, node: n.Node, fixed: Mapping[n.Node, str]) -> str:
    if not isinstance(node, n.Constant):
        return ""
    scale = writer.scale(node)
    values = node.value if scale is None else as_int8(node.value, scale)
    if values.dtype.kind == "f":
        values = values.astype(np.float32)
    values = values.astype(np.uint8) if values.dtype == bool else values
    array = writer.array(np.ascontiguousarray(values))
    return f"#define {fixed[node]} {array}"


def _step(writer: Writer, node: n.Node) -> str:
    """The statements of a node, in a block of their own."""
    if isinstance(node, n.Input | n.Constant) or _is_view(writer.arena, node):
        return ""
    lines = EMITTERS[type(node)](writer, node)
    about = f" {node.name}" if node.name else ""
    shape = " x ".join(map(str, node.shape))
    kind = type(node.core).__name__ if isinstance(node, FusedLayer) else type(node).__name__
    title = f"/* {kind}{about.replace('*/', '')}: {shape} */"
    return "\n".join(f"    {line}" for line in [title, "{", *(f"    {one}" for one in lines), "}"])


def _is_view(arena: Arena, node: n.Node) -> bool:
    """Whether a tensor lies in the memory of the one that it is made of."""
    return node in arena.views


def _copied(writer: Writer, node: n.Node, name: str) -> str:
    count = prod(node.shape)
    source = f"const float *from = {writer.pointer(node)};"
    loop = f"for (int32_t i = 0; i < {count}; i++) {name}[i] = from[i];"
    return f"    {{\n        {source}\n        {loop}\n    }}"


def _row_count(writer: Writer) -> str:
    return (
        "uint8_t"
        if writer.most_in_row < 256
        else ("uint16_t" if writer.most_in_row < 65536 else "int32_t")
    )


def _parameters(network: n.Network) -> str:
    inputs = [
        f"const {c_type(node, {})} *{_named('input', index, len(network.inputs))}"
        for index, node in enumerate(network.inputs)
    ]
    outputs = [
        f"float *{_named('output', index, len(network.outputs))}"
        for index in range(len(network.outputs))
    ]
    return ", ".join([*inputs, *outputs])


def _sizes(network: n.Network) -> str:
    lines = []
    for word, nodes in (("INPUT", network.inputs), ("OUTPUT", network.outputs)):
        for index, node in enumerate(nodes):
            number = "" if len(nodes) == 1 else str(index)
            lines.append(f"#define PREFIX_{word}S{number} {prod(node.shape)}")
    return "\n".join(lines)


def _shapes(nodes: tuple[n.Node, ...], word: str) -> str:
    return "; ".join(
        f"{_named(word, index, len(nodes))}: {' x '.join(map(str, node.shape))}"
        for index, node in enumerate(nodes)
    )


# The parts of a C file that are the same for every network. NAME and PREFIX stand for its name;
# words between @ are replaced.
HEADER = """/* @weights@ weights in @kinds@. Written by sparsegate @version@. */
#ifndef PREFIX_H
#define PREFIX_H

#include <stdint.h>

@sizes@
#define PREFIX_ARENA @arena@

#ifdef __cplusplus
extern "C" {
#endif

/* Memory takes
 *   flash: @flash@ bytes of weights and tables, and the code;
 *   RAM:   @ram@ bytes, which NAME_arena is, and the inputs and outputs of the caller.
 */
typedef union {
    uint64_t alignment;
    unsigned char bytes[PREFIX_ARENA];
} NAME_arena;

/* Computes the outputs of one input.
 *   @inputs@
 *   @outputs@
 * It writes to the outputs and the arena only, whose bytes mean nothing between two calls. The
 * arena, inputs and outputs must not overlap. Threads may call it at once, each with an arena.
 */
void NAME_run(NAME_arena *arena, @parameters@);

#ifdef __cplusplus
}
#endif
#endif
"""

SOURCE = """#include "@include@"

#include <math.h>
#include <stdint.h>

typedef @row_count@ row_count;

@functions@

@data@

void NAME_run(NAME_arena *arena, @parameters@)
{
    unsigned char *memory = arena->bytes;
    (void)memory; /* a network of one layer needs none */
@steps@
}
"""
