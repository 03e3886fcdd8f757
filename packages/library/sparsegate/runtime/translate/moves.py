"""Rules for what moves elements: views, joins, padding, pools, interpolation."""

from __future__ import annotations

from sparsegate_runtime.engine import network as n

from .call import Call
from .translator import Rule, Translator


def _source(made: Translator, call: Call) -> n.Node | None:
    source = call.get("self", call.get("input"))
    return made.value(source) if made.floats(source) else None


def _reshape(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    return None if read is None else made.reshape(read, call.shape)


def _nothing(made: Translator, call: Call) -> n.Node | None:
    read = made.number(call["self"])  # truth values and integers become floats
    return read if read is not None and read.shape == call.shape else None


def _dropout(made: Translator, call: Call) -> n.Node | None:
    return None if call["train"] else _source(made, call)


def _permute(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    return None if read is None else made.permute(read, [d % len(call.shape) for d in call["dims"]])


def _transpose(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    if read is None:
        return None
    rank = len(call.shape)
    dims = list(range(rank))
    first, second = (-2, -1) if call.name == "mT" else (0, 1)
    one = call.get("dim0", call.get("axis0", first)) % max(rank, 1)
    other = call.get("dim1", call.get("axis1", second)) % max(rank, 1)
    if rank < 2:
        return read
    dims[one], dims[other] = dims[other], dims[one]
    return made.permute(read, dims)


def _slice(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    if read is None:
        return None
    dim = call["dim"] % len(call.shape)
    start = call["start"] or 0
    if not isinstance(start, int):
        return None
    size = read.shape[dim]
    start = max(0, start + size) if start < 0 else min(start, size)
    return _cut(made, read, call, dim, start, call.get("step", 1))


def _narrow(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    if read is None or not isinstance(call["start"], int):
        return None
    dim = call["dim"] % len(call.shape)
    return _cut(made, read, call, dim, call["start"] % max(1, read.shape[dim]), 1)


def _cut(made: Translator, read: n.Node, call: Call, dim: int, start: int, step: int) -> n.Node:
    if read.shape == call.shape:
        return read
    cut = n.Slice(inputs=(read,), shape=call.shape, dimension=dim, start=start, step=step)
    return made.add(cut)


def _select(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    if read is None or not isinstance(call["index"], int):
        return None
    dim = call["dim"] % len(read.shape)
    shape = tuple(1 if d == dim else size for d, size in enumerate(read.shape))
    start = call["index"] % read.shape[dim]
    one = made.add(n.Slice(inputs=(read,), shape=shape, dimension=dim, start=start, step=1))
    return made.reshape(one, call.shape)


def _part(made: Translator, call: Call) -> n.Node | None:
    """One of the tensors that split, chunk or unbind give."""
    read, index = _source(made, call), call["index"]
    if read is None:
        return None
    dim = call["dim"] % len(read.shape)
    if call.name == "unbind":
        shape = tuple(1 if d == dim else size for d, size in enumerate(read.shape))
        one = n.Slice(inputs=(read,), shape=shape, dimension=dim, start=index, step=1)
        return made.reshape(made.add(one), call.shape)
    sizes = call.get("split_size", call.get("split_sizes"))
    if call.name == "chunk":
        sizes = -(-read.shape[dim] // call["chunks"])
    start = index * sizes if isinstance(sizes, int) else sum(sizes[:index])
    return _cut(made, read, call, dim, start, 1)


def _expand(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    if read is None or read.shape == call.shape:
        return read
    return made.add(n.Expand(inputs=(read,), shape=call.shape))


def _join(made: Translator, call: Call) -> n.Node | None:
    if not made.floats(*call["tensors"]):
        return None
    reads = tuple(one for one in map(made.value, call["tensors"]) if one.shape != (0,))
    if any(len(one.shape) != len(call.shape) for one in reads):
        return None
    if len(reads) == 1:
        return reads[0]
    dim = call.get("dim", 0) % len(call.shape)
    return made.add(n.Join(inputs=reads, shape=call.shape, dimension=dim))


def _stack(made: Translator, call: Call) -> n.Node | None:
    if not made.floats(*call["tensors"]):
        return None
    dim = call.get("dim", 0) % len(call.shape)
    reads = []
    for one in call["tensors"]:
        read = made.value(one)
        reads.append(made.reshape(read, (*read.shape[:dim], 1, *read.shape[dim:])))
    return made.add(n.Join(inputs=tuple(reads), shape=call.shape, dimension=dim))


def _roll(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    dims = call["dims"]
    if read is None or not dims:
        return None
    for shift, given in zip(call["shifts"], dims, strict=True):
        dim = given % len(call.shape)
        size = read.shape[dim]
        cut = -shift % size
        if not cut:
            continue
        parts = []
        for start, length in ((cut, size - cut), (0, cut)):
            shape = tuple(length if d == dim else own for d, own in enumerate(call.shape))
            one = n.Slice(inputs=(read,), shape=shape, dimension=dim, start=start, step=1)
            parts.append(made.add(one))
        read = made.add(n.Join(inputs=tuple(parts), shape=call.shape, dimension=dim))
    return read


def _pad(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    sides = call["pad"]
    if read is None or call.get("mode", "constant") != "constant":
        return None
    if not all(isinstance(one, int) for one in sides):
        return None
    pairs = list(zip(sides[::2], sides[1::2], strict=True))
    whole = [(0, 0)] * (len(call.shape) - len(pairs)) + pairs[::-1]
    value = float(call.get("value") or 0)
    return made.add(n.Pad(inputs=(read,), shape=call.shape, sides=tuple(whole), value=value))


def _pixel_shuffle(made: Translator, call: Call) -> n.Node | None:
    read = _source(made, call)
    if read is None or len(call.shape) != 4:
        return None
    factor = call["upscale_factor"]
    batch, channels, height, width = read.shape
    parts = made.reshape(read, (batch, channels // factor**2, factor, factor, height, width))
    return made.reshape(made.permute(parts, (0, 1, 4, 2, 5, 3)), call.shape)


VIEWS = (
    "view",
    "reshape",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "view_as",
    "_unsafe_view",
)
SAME = (
    "contiguous",
    "clone",
    "detach",
    "alias",
    "to",
    "_to_copy",
    "lift_fresh",
    "type_as",
    "float",
)
RULES: dict[str, Rule] = {
    **dict.fromkeys((*VIEWS, "reshape_as"), _reshape),
    **dict.fromkeys(SAME, _nothing),
    **dict.fromkeys(("dropout", "feature_dropout", "alpha_dropout"), _dropout),
    "permute": _permute,
    **dict.fromkeys(("transpose", "t", "mT", "swapaxes", "swapdims"), _transpose),
    "slice": _slice,
    "narrow": _narrow,
    "select": _select,
    **{f"{name}.item": _part for name in ("split", "chunk", "unbind", "split_with_sizes")},
    **dict.fromkeys(("expand", "expand_as"), _expand),
    **dict.fromkeys(("cat", "concat", "concatenate"), _join),
    "stack": _stack,
    "roll": _roll,
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    "pixel_shuffle": _pixel_shuffle,
}
