"""Makes the nodes that compute: layers, functions, norms, attention, reductions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .build import Builder, need
from .sketch import OperationRecord

GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}
REDUCTIONS = ("sum", "mean", "amax", "amin")


def linear(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """A matrix times the last dimension."""
    builder.floats(read)
    weight = builder.array(record.fields["weight"], 2)
    need(len(read.shape) >= 2, "a linear layer needs two dimensions at least")
    need(
        read.shape[-1] == weight.shape[1],
        f"a weight of {weight.shape[1]} columns reads {read.shape[-1]} features",
    )
    return n.Linear(
        inputs=(read,),
        shape=(*read.shape[:-1], weight.shape[0]),
        weight=weight,
        bias=builder.vector(record.fields["bias"], weight.shape[0]),
        name=builder.title(record.fields["weight"]),
    )


def conv(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """A convolution."""
    fields = record.fields
    builder.floats(read)
    weight = builder.array(fields["weight"], 4)
    (groups,) = fields["groups"]
    need(len(read.shape) == 4, "a convolution needs four dimensions")
    need(
        read.shape[1] == weight.shape[1] * groups and len(weight) % groups == 0,
        f"a weight of shape {weight.shape} in {groups} groups reads {read.shape[1]} channels",
    )
    sides = fields["padding"][:2], fields["padding"][2:]
    sizes, around = [], []
    for axis in (0, 1):
        size = read.shape[2 + axis]
        need(size + min(0, *sides[axis]) + min(0, sum(sides[axis])) > 0, "nothing is left to read")
        around.append(size + sum(sides[axis]))
        reach = fields["dilation"][axis] * (weight.shape[2 + axis] - 1)
        sizes.append((around[axis] - reach - 1) // fields["stride"][axis] + 1)
    need(min(sizes) > 0, f"a kernel of {weight.shape[2:]} is larger than its input {read.shape}")
    builder.fits(prod(read.shape[:2]) * prod(around))
    return n.Conv(
        inputs=(read,),
        shape=(read.shape[0], len(weight), *sizes),
        weight=weight,
        bias=builder.vector(fields["bias"], len(weight)),
        stride=fields["stride"],
        padding=sides,
        dilation=fields["dilation"],
        groups=groups,
        name=builder.title(fields["weight"]),
    )


def transposed(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """A transposed convolution."""
    fields = record.fields
    builder.floats(read)
    weight = builder.array(fields["weight"], 4)
    (groups,) = fields["groups"]
    need(len(read.shape) == 4, "a transposed convolution needs four dimensions")
    need(
        read.shape[1] == len(weight) and len(weight) % groups == 0,
        f"a weight of shape {weight.shape} in {groups} groups reads {read.shape[1]} channels",
    )
    sizes, phases = [], []
    for axis in (0, 1):
        stride, gap = fields["stride"][axis], fields["dilation"][axis]
        reach = gap * (weight.shape[2 + axis] - 1)
        size = (read.shape[2 + axis] - 1) * stride - 2 * fields["padding"][axis] + reach + 1
        need(fields["extra"][axis] < max(stride, gap), "the extra size is larger than the stride")
        sizes.append(size + fields["extra"][axis])
        phases.append(stride * ((reach + fields["padding"][axis]) // stride + 2))
    need(min(sizes) > 0, f"nothing is left of an input of shape {read.shape}")
    builder.fits(weight.shape[0] * weight.shape[1] * prod(phases))
    outputs = weight.shape[1] * groups
    return n.TransposedConv(
        inputs=(read,),
        shape=(read.shape[0], outputs, *sizes),
        weight=weight,
        bias=builder.vector(fields["bias"], outputs),
        stride=fields["stride"],
        padding=fields["padding"],
        dilation=fields["dilation"],
        groups=groups,
        name=builder.title(fields["weight"]),
    )


def function(builder: Builder, record: OperationRecord, *reads: n.Node) -> n.Node:
    """A function of elements."""
    builder.floats(*reads)
    number, x, y = record.fields["function"]
    binary = number >= Function.ADD
    need(len(reads) == 1 + binary, f"{Function(number).name} reads {1 + binary} tensors")
    shape = _broadcast(*(one.shape for one in reads))
    return n.Map(inputs=reads, shape=shape, function=Function(number), x=x, y=y)


def layer_norm(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """A norm over the last dimension."""
    builder.floats(read)
    fields = record.fields
    need(len(read.shape) >= 2, "a layer norm needs two dimensions at least")
    return n.LayerNorm(
        inputs=(read,),
        shape=read.shape,
        weight=builder.vector(fields["weight"], read.shape[-1]),
        bias=builder.vector(fields["bias"], read.shape[-1]),
        eps=_eps(fields["eps"]),
        rms=bool(fields["rms"]),
    )


def group_norm(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """A norm over groups of channels."""
    builder.floats(read)
    fields = record.fields
    (groups,) = fields["groups"]
    need(len(read.shape) == 4, "a group norm needs four dimensions")
    need(read.shape[1] % groups == 0, f"{read.shape[1]} channels are not {groups} groups")
    return n.GroupNorm(
        inputs=(read,),
        shape=read.shape,
        weight=builder.vector(fields["weight"], read.shape[1]),
        bias=builder.vector(fields["bias"], read.shape[1]),
        eps=_eps(fields["eps"]),
        groups=groups,
    )


def _eps(eps: float) -> float:
    need(0 <= eps < np.inf, f"eps is {eps}")
    return eps


def softmax(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """Softmax over one dimension."""
    builder.floats(read)
    (dimension,) = record.fields["dimension"]
    need(dimension < len(read.shape), f"there is no dimension {dimension}")
    log = bool(record.fields["log"])
    return n.Softmax(inputs=(read,), shape=read.shape, dimension=dimension, log=log)


def product(builder: Builder, _: OperationRecord, one: n.Node, other: n.Node) -> n.Node:
    """A matrix product of two tensors."""
    builder.floats(one, other)
    need(min(len(one.shape), len(other.shape)) >= 2, "a product needs two dimensions at least")
    leading = _broadcast(one.shape[:-2], other.shape[:-2])
    need(len(leading) <= 3, f"a product over {len(leading)} leading dimensions")
    need(one.shape[-1] == other.shape[-2], f"{one.shape} and {other.shape} cannot be multiplied")
    shape = (*leading, one.shape[-2], other.shape[-1])
    return n.Product(inputs=(one, other), shape=shape)


def attention(builder: Builder, record: OperationRecord, *reads: n.Node) -> n.Node:
    """Attention, with a mask or without."""
    q, k, v = (one.shape for one in reads[:3])
    builder.floats(*reads[:3])
    need(len(q) == len(k) == len(v) == 4, "attention needs four dimensions")
    agree = q[0] == k[0] == v[0] and k[1:3] == v[1:3] and q[3] == k[3] and q[1] % k[1] == 0
    need(agree, f"queries {q}, keys {k} and values {v} do not agree")
    causal = bool(record.fields["causal"])
    need(not causal or q[2] == k[2], f"{q[2]} queries and {k[2]} keys cannot be causal")
    if len(reads) > 3:
        kind = builder.kinds.get(reads[3], "float32")
        need(kind in ("float32", "bool"), f"a mask of type {kind}, expected float32 or bool")
        need(len(reads[3].shape) == 4, "a mask needs four dimensions")
        expands(reads[3].shape, (*q[:3], k[2]))
    scale = record.fields["scale"]
    need(bool(np.isfinite(scale)), f"the scale of attention is {scale}")
    return n.Attention(inputs=reads, shape=(*q[:3], v[3]), causal=causal, scale=scale)


def reduce(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """A sum, mean, maximum or minimum over some dimensions."""
    builder.floats(read)
    dims = record.fields["dimensions"]
    rising = list(dims) == sorted(set(dims)) and len(dims) > 0
    need(rising and dims[-1] < len(read.shape), f"a reduction over the dimensions {dims}")
    shape = tuple(1 if dim in dims else size for dim, size in enumerate(read.shape))
    name = REDUCTIONS[record.fields["function"]]
    return n.Reduce(inputs=(read,), shape=shape, function=name, dimensions=dims)


def recurrent(builder: Builder, record: OperationRecord, read: n.Node) -> n.Node:
    """All steps of a recurrent layer."""
    builder.floats(read)
    fields = record.fields
    weight = builder.array(fields["weight"], 2)
    cell = n.CELLS[fields["cell"]]
    rows = GATES[cell] * weight.shape[1]
    need(len(read.shape) == 3, "a recurrent layer needs three dimensions")
    need(
        len(weight) == rows == read.shape[2],
        f"a weight of shape {weight.shape} of a layer of kind {cell} reads {read.shape[2]} sums",
    )
    return n.Recurrent(
        inputs=(read,),
        shape=(*read.shape[:2], weight.shape[1]),
        cell=cell,
        weight=weight,
        bias=builder.vector(fields["bias"], rows),
        reverse=bool(fields["reverse"]),
        name=builder.title(fields["weight"]),
    )


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise ValueError(f"shapes {', '.join(map(str, shapes))} cannot be broadcast") from error


def expands(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raises ValueError unless a shape can be repeated to another."""
    fits = len(shape) <= len(wanted) and all(
        size in (1, other) for size, other in zip(shape[::-1], wanted[::-1], strict=False)
    )
    need(fits, f"a tensor of shape {shape} cannot be repeated to {wanted}")


Build = Callable[..., n.Node]
LAYERS: dict[str, Build] = {
    "linear": linear,
    "conv": conv,
    "transposed conv": transposed,
    "function": function,
    "layer norm": layer_norm,
    "group norm": group_norm,
    "softmax": softmax,
    "product": product,
    "attention": attention,
    "reduce": reduce,
    "recurrent": recurrent,
}
