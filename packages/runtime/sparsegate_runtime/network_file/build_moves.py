"""Makes the nodes that move elements: views, joins, pads, pools, resizes, embeddings."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.engine import network as n

from .build import Builder, need, take_input
from .build_layers import Build, expands
from .fields import CORNERS, LISTED, NEAREST, Rule
from .sizes import MOST_SIZE
from .sketch import OperationRecord


def constant(builder: Builder, record: OperationRecord) -> n.Node:
    """A tensor of the weights."""
    number = record.fields["value"]
    value = np.asarray(builder.tensors[number])
    kind = str(value.dtype)
    need(kind in ("float32", "int64", "bool"), f"a constant of type {kind}")
    return _fixed(builder, value, builder.names[number])


def _fixed(builder: Builder, value: NDArray[Any], name: str) -> n.Node:
    made = n.Constant(shape=value.shape, value=value, name=name)
    if value.dtype != np.float32:
        builder.kinds[made] = str(value.dtype)
    return made


def reshape(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """The same elements in another shape."""
    shape = builder.shape(record.fields["shape"])
    need(prod(shape) == prod(read.shape), f"{read.shape} cannot become {shape}")
    if isinstance(read, n.Constant):
        return _fixed(builder, read.value.reshape(shape), read.name)
    made = n.Reshape(inputs=(read,), shape=shape)
    if read in builder.kinds:
        builder.kinds[made] = builder.kinds[read]
    return made


def permute(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """The dimensions in another order."""
    dims = record.fields["dimensions"]
    need(sorted(dims) == list(range(len(read.shape))), f"{dims} is no order of the dimensions")
    if isinstance(read, n.Constant):
        return _fixed(builder, read.value.transpose(dims), read.name)
    builder.floats(read)
    shape = tuple(read.shape[dim] for dim in dims)
    return n.Permute(inputs=(read,), shape=shape, dimensions=dims)


def cut(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """Some positions of a dimension."""
    (dim,), (step,) = record.fields["dimension"], record.fields["step"]
    need(dim < len(read.shape), f"there is no dimension {dim}")
    start, size = builder.size(record.fields["start"]), builder.size(record.fields["size"])
    last = start + step * (size - 1)
    need(
        size > 0 and last < read.shape[dim],
        f"positions {start} to {last} of a dimension of {read.shape[dim]}",
    )
    if isinstance(read, n.Constant):
        index = [slice(None) for _ in read.shape]
        index[dim] = slice(start, last + 1, step)
        return _fixed(builder, read.value[tuple(index)], read.name)
    builder.floats(read)
    shape = tuple(size if d == dim else own for d, own in enumerate(read.shape))
    return n.Slice(inputs=(read,), shape=shape, dimension=dim, start=start, step=step)


def expand(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """Sizes of one repeated."""
    shape = builder.shape(record.fields["shape"])
    expands(read.shape, shape)
    if isinstance(read, n.Constant):
        builder.fits(prod(shape))
        return _fixed(builder, np.broadcast_to(read.value, shape), read.name)
    builder.floats(read)
    return n.Expand(inputs=(read,), shape=shape)


def join(builder: Builder, record: OperationRecord, *reads: n.Node) -> n.Node:
    """Tensors one after another."""
    builder.floats(*reads)
    (dim,) = record.fields["dimension"]
    shape = reads[0].shape
    need(dim < len(shape), f"there is no dimension {dim}")
    for one in reads:
        agree = len(one.shape) == len(shape) and all(
            own == other
            for d, (own, other) in enumerate(zip(one.shape, shape, strict=True))
            if d != dim
        )
        need(agree, f"tensors of shapes {shape} and {one.shape} cannot be joined")
    size = sum(one.shape[dim] for one in reads)
    whole = tuple(size if d == dim else own for d, own in enumerate(shape))
    return n.Join(inputs=reads, shape=whole, dimension=dim)


def pad(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """Positions added or left out."""
    builder.floats(read)
    sides = record.fields["sides"]
    need(len(sides) == len(read.shape), f"{len(sides)} pairs for {len(read.shape)} dimensions")
    for size, pair in zip(read.shape, sides, strict=True):
        need(size + min(0, pair[0]) + min(0, pair[1]) > 0, f"nothing is left of {size} positions")
    shape = tuple(size + sum(pair) for size, pair in zip(read.shape, sides, strict=True))
    return n.Pad(inputs=(read,), shape=shape, sides=sides, value=record.fields["value"])


def pool(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """Windows over images."""
    builder.floats(read)
    fields = record.fields
    need(len(read.shape) == 4, "a pool needs four dimensions")
    sizes = []
    for axis in (0, 1):
        kernel, around = fields["kernel"][axis], fields["padding"][axis]
        need(2 * around <= kernel, f"a window of {kernel} has a padding of {around}")
        reach = fields["dilation"][axis] * (kernel - 1)
        room = read.shape[2 + axis] + 2 * around
        sizes.append((room - reach - 1) // fields["stride"][axis] + 1)
    need(min(sizes) > 0, f"a window of {fields['kernel']} is larger than its input {read.shape}")
    (divisor,) = fields["divisor"]
    return n.Pool(
        inputs=(read,),
        shape=(*read.shape[:2], *sizes),
        largest=bool(fields["largest"]),
        kernel=fields["kernel"],
        stride=fields["stride"],
        padding=fields["padding"],
        dilation=fields["dilation"],
        counts_padding=bool(fields["counts_padding"]),
        divisor=divisor or None,
    )


def resize(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """Images of another size."""
    builder.floats(read)
    fields = record.fields
    need(len(read.shape) == 4, "a resize needs four dimensions")
    sizes = (builder.size(fields["lines"]), builder.size(fields["pixels"]))
    builder.fits(prod(read.shape[:2]) * prod(sizes))
    need(min(sizes) > 0, "an image of no lines or pixels")
    rules = (fields["line_rule"], fields["pixel_rule"])
    lines, pixels = (
        _sources(builder, rule, read.shape[2 + axis], sizes[axis])
        for axis, rule in enumerate(rules)
    )
    return n.Upsample(inputs=(read,), shape=(*read.shape[:2], *sizes), lines=lines, pixels=pixels)


def _sources(builder: Builder, rule: Rule, size: int, wanted: int) -> Any:
    """First and second source of every position, and the weight of the second."""
    if rule.rule != LISTED:
        return sources(rule.rule, rule.scale, size, wanted)
    first, second = (builder.array(number, 1, "int32") for number in rule.tensors[:2])
    share = np.asarray(builder.array(rule.tensors[2], 1))
    need(
        len(first) == len(second) == len(share) == wanted, f"sources of another size than {wanted}"
    )
    for one in (first, second):
        inside = bool(np.all((one >= 0) & (one < size)))
        need(inside, f"a source is outside of {size} positions")
    return first, second, share


def sources(rule: int, scale: float, size: int, wanted: int) -> Any:
    """What a rule of the format means: two sources of every position, and the second's weight."""
    at = np.arange(wanted, dtype=np.float64)
    ratio = 1 / scale if scale else size / wanted
    need(ratio * wanted <= MOST_SIZE, f"a scale of {scale}")
    if rule == NEAREST:
        reached = np.minimum(at * np.float32(ratio), size - 1)
        first = reached.astype(np.int32)
        return first, first, np.zeros(wanted, np.float32)
    if rule == CORNERS:
        where = at * ((size - 1) / (wanted - 1) if wanted > 1 else 0)
    else:
        where = np.maximum((at + 0.5) * ratio - 0.5, 0)
    first = np.minimum(where, size - 1).astype(np.int32)
    second = np.minimum(first + 1, size - 1)
    return first, second, (where - first).astype(np.float32)


def embedding(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """Rows of a table."""
    number = record.fields["table"]
    table = builder.array(number, 2)
    kind = builder.kinds.get(read, "float32")
    need(kind == "int64", f"an embedding reads {kind}, expected int64")
    shape = (*read.shape, table.shape[1])
    return n.Embedding(inputs=(read,), shape=shape, table=table, name=builder.title(number))


def cast(builder: Builder, _: OperationRecord, read: n.Node) -> n.Node:
    """Integers or truth values of an input as floats."""
    kind = builder.kinds.get(read, "float32")
    need(kind in ("int64", "bool"), f"a cast reads {kind}, expected int64 or bool")
    inner = read.inputs[0] if isinstance(read, n.Reshape) else read
    need(isinstance(inner, n.Input), "a cast reads something else than an input")
    return n.Cast(inputs=(read,), shape=read.shape)


MOVES: dict[str, Build] = {
    "input": take_input,
    "constant": constant,
    "reshape": reshape,
    "permute": permute,
    "slice": cut,
    "expand": expand,
    "join": join,
    "pad": pad,
    "pool": pool,
    "resize": resize,
    "embedding": embedding,
    "cast": cast,
}
