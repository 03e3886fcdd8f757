"""Rules for layers with weights, products of activations and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import fx

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .call import Call
from .translator import Rule, Translator


def _linear(made: Translator, call: Call) -> n.Node | None:
    return _matrix(made, call["input"], call["weight"], call["bias"], call.shape, transposed=False)


def _matrix(
    made: Translator,
    source: Any,
    weight: Any,
    bias: Any,
    shape: tuple[int, ...],
    *,
    transposed: bool,
) -> n.Node | None:
    if not made.is_fixed(weight) or made.is_fixed(source) or not made.floats(source, weight):
        return None
    if bias is not None and not made.is_fixed(bias):
        return None
    matrix = made.array(weight)
    if matrix.ndim != 2:
        return None
    read = made.value(source)
    if len(read.shape) < 2:
        read = made.reshape(read, (1, *read.shape))
    inner = read.inputs[0] if isinstance(read, n.Reshape) else read
    if len(inner.shape) > 1 and inner.shape[-1] == read.shape[-1]:
        read = inner  # merged positions are split again later, or are the same elements
    out = n.Linear(
        inputs=(read,),
        shape=(*read.shape[:-1], matrix.shape[1 if transposed else 0]),
        weight=np.ascontiguousarray(matrix.T) if transposed else matrix,
        bias=None if bias is None else np.broadcast_to(made.array(bias), shape[-1:]),
        name=made.layer_of(weight),
    )
    return made.reshape(made.add(out), shape)


def _addmm(made: Translator, call: Call) -> n.Node | None:
    if call.get("beta", 1) != 1 or call.get("alpha", 1) != 1:
        return None
    bias = call["self"]
    if not made.is_fixed(bias) or bias.meta["val"].ndim != 1:
        return None
    return _matrix(made, call["mat1"], call["mat2"], bias, call.shape, transposed=True)


def _matmul(made: Translator, call: Call) -> n.Node | None:
    one, other = call["self"], call.get("other", call.get("mat2"))
    if not made.floats(one, other):
        return None
    if made.is_fixed(other) and other.meta["val"].ndim == 2:
        return _matrix(made, one, other, None, call.shape, transposed=True)
    a, b = made.value(one), made.value(other)
    if len(a.shape) < 2 or len(b.shape) < 2 or math.prod(call.shape) == 0:
        return None
    leading = call.shape[:-2]
    folded = leading if len(leading) <= 3 else (math.prod(leading),)
    if folded != leading:
        if a.shape[:-2] != leading or b.shape[:-2] != leading:
            return None
        a, b = (made.reshape(each, (*folded, *each.shape[-2:])) for each in (a, b))
    out = n.Product(inputs=(a, b), shape=(*folded, *call.shape[-2:]))
    return made.reshape(made.add(out), call.shape)


# -- convolutions -------------------------------------------------------------------------------


def _conv(made: Translator, call: Call) -> n.Node | None:
    weight, bias = call["weight"], call["bias"]
    if not made.is_fixed(weight) or (bias is not None and not made.is_fixed(bias)):
        return None
    dims = len(call.shape) - 2
    if dims not in (1, 2) or not made.floats(call["input"], weight):
        return None
    kernel = _images_of(made.array(weight), dims)
    dilation = both(call["dilation"], dims, 1)
    padding = _padding(call["padding"], kernel.shape[2:], dilation, dims)
    read, padding = _padded(made.value(call["input"]), padding, dims)
    out = n.Conv(
        inputs=(made.reshape(read, _as_images(read.shape)),),
        shape=_as_images(call.shape),
        weight=kernel,
        bias=None if bias is None else made.array(bias),
        stride=both(call["stride"], dims, 1),
        padding=padding,
        dilation=dilation,
        groups=call["groups"],
        name=made.layer_of(weight),
    )
    return made.reshape(made.add(out), call.shape)


def _padded(read: n.Node, padding: Any, dims: int) -> tuple[n.Node, Any]:
    """Zeros around the input become padding of the convolution."""
    if not isinstance(read, n.Pad) or read.value != 0 or any(map(any, read.sides[:2])):
        return read, padding
    sides = read.sides[2:] if dims == 2 else ((0, 0), *read.sides[2:])
    if min(map(min, sides)) < 0:
        return read, padding
    summed = tuple(
        (own[0] + more[0], own[1] + more[1]) for own, more in zip(padding, sides, strict=True)
    )
    return read.inputs[0], summed


def _transposed(made: Translator, call: Call) -> n.Node | None:
    weight, bias = call["weight"], call["bias"]
    if not made.is_fixed(weight) or (bias is not None and not made.is_fixed(bias)):
        return None
    dims = len(call.shape) - 2
    if dims not in (1, 2) or not made.floats(call["input"], weight):
        return None
    read = made.value(call["input"])
    out = n.TransposedConv(
        inputs=(made.reshape(read, _as_images(read.shape)),),
        shape=_as_images(call.shape),
        weight=_images_of(made.array(weight), dims),
        bias=None if bias is None else made.array(bias),
        stride=both(call["stride"], dims, 1),
        padding=both(call["padding"], dims, 0),
        dilation=both(call["dilation"], dims, 1),
        groups=call["groups"],
        name=made.layer_of(weight),
    )
    return made.reshape(made.add(out), call.shape)


def _as_images(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) == 4 else (*shape[:2], 1, *shape[2:])


def _images_of(weight: Any, dims: int) -> Any:
    return weight if dims == 2 else np.ascontiguousarray(weight[:, :, None, :])


def both(given: Any, dims: int, other: int) -> tuple[int, int]:
    """A setting for lines and pixels; a convolution over one dimension has one line."""
    values = list(given) if isinstance(given, list | tuple) else [given]
    values = values * dims if len(values) == 1 else values
    first, second = values if dims == 2 else (other, values[0])
    return int(first), int(second)


def _padding(
    given: Any, taps: tuple[int, ...], dilation: tuple[int, int], dims: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    if given == "same":
        sums = [gap * (size - 1) for gap, size in zip(dilation, taps, strict=True)]
        lines, pixels = ((both // 2, both - both // 2) for both in sums)
        return lines, pixels
    line, pixel = (0, 0) if given == "valid" else both(given, dims, 0)
    return (line, line), (pixel, pixel)


# -- attention, embeddings ----------------------------------------------------------------------


def _attention(made: Translator, call: Call) -> n.Node | None:
    q, k, v = (call[name] for name in ("query", "key", "value"))
    if not made.floats(q, k, v) or len(call.shape) < 3 or call["dropout_p"]:
        return None
    features = q.meta["val"].shape[-1]
    scale = call["scale"]
    scale = 1 / math.sqrt(features) if scale is None else float(scale)
    causal, mask = bool(call["is_causal"]), call["attn_mask"]
    keys = int(k.meta["val"].shape[-2])
    if causal and call.shape[-2] != keys:
        return None
    inputs = [_heads(made, made.value(one)) for one in (q, k, v)]
    shape = (*inputs[0].shape[:3], inputs[2].shape[3])
    if mask is not None:
        found = _mask(made, mask, shape, keys)
        if found is None:
            return None
        kind, node = found
        causal = causal or kind == "causal"
        if node is not None:
            inputs.append(node)
    out = n.Attention(inputs=tuple(inputs), shape=shape, causal=causal, scale=scale)
    return made.reshape(made.add(out), call.shape)


def _cached_attention(made: Translator, call: Call) -> n.Node | None:
    names = ("q", "k", "v", "keys", "values", "state")
    inputs = tuple(made.value(call[name]) for name in names)
    layer, scale = int(call["layer"]), float(call["scale"])
    return made.add(n.CachedAttention(inputs=inputs, shape=call.shape, layer=layer, scale=scale))


def _heads(made: Translator, node: n.Node) -> n.Node:
    """A tensor [batch, heads, tokens, features]."""
    if len(node.shape) == 4:
        return node
    if len(node.shape) == 3:
        return made.reshape(node, (node.shape[0], 1, *node.shape[1:]))
    return made.reshape(node, (math.prod(node.shape[:-3]), *node.shape[-3:]))


def _mask(
    made: Translator, mask: fx.Node, shape: tuple[int, ...], keys: int
) -> tuple[str, n.Node | None] | None:
    """A mask that has no effect, one that hides what follows, or the tensor."""
    value = mask.meta["val"]
    if value.dtype not in (torch.bool, torch.float32) or value.ndim > 4:
        return None
    if made.is_fixed(mask):
        array = made.array(mask)
        whole = np.broadcast_to(array, (*array.shape[:-2], shape[2], keys))
        seen = array if array.dtype == bool else np.where(array == 0, True, False)
        if (array.dtype == bool or not np.any(array)) and seen.all():
            return "none", None
        if array.dtype == bool and shape[2] == keys and (whole == np.tri(keys, dtype=bool)).all():
            return "causal", None
    node = made.value(mask)
    if value.dtype == torch.bool and isinstance(node, n.External):
        node = _added(made, made.number(mask)) or node
    rank = len(node.shape)
    if rank < 2:
        return None
    return "mask", made.reshape(node, (1,) * (4 - rank) + node.shape)


def _added(made: Translator, seen: n.Node | None) -> n.Node | None:
    """What a mask of ones and zeros adds to scores: zero, or minus infinity."""
    if seen is None:
        return None
    inner = seen.inputs[0] if isinstance(seen, n.Expand) else seen
    log = made.add(n.Map(inputs=(inner,), shape=inner.shape, function=Function.LOG))
    if inner is seen:
        return log
    return made.add(n.Expand(inputs=(log,), shape=seen.shape))


def _embedding(made: Translator, call: Call) -> n.Node | None:
    weight, ids = call["weight"], call["indices"]
    if not made.is_fixed(weight) or ids.meta["val"].dtype != torch.int64 or made.is_fixed(ids):
        return None
    read = made.value(ids)
    table = made.array(weight)
    name = made.layer_of(weight)
    return made.add(n.Embedding(inputs=(read,), shape=call.shape, table=table, name=name))


def _glu(made: Translator, call: Call) -> n.Node | None:
    read, dim = made.value(call["self"]), call["dim"] % len(call.shape)
    half = call.shape[dim]
    one, other = (
        made.add(n.Slice(inputs=(read,), shape=call.shape, dimension=dim, start=start, step=1))
        for start in (0, half)
    )
    gate = made.add(n.Map(inputs=(other,), shape=call.shape, function=Function.SIGMOID))
    return made.add(n.Map(inputs=(one, gate), shape=call.shape, function=Function.MUL))


RULES: dict[str, Rule] = {
    "linear": _linear,
    "addmm": _addmm,
    **dict.fromkeys(("matmul", "mm", "bmm"), _matmul),
    **dict.fromkeys(("conv1d", "conv2d"), _conv),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d"), _transposed),
    "scaled_dot_product_attention": _attention,
    "attend_cached": _cached_attention,
    "embedding": _embedding,
    "glu": _glu,
}
