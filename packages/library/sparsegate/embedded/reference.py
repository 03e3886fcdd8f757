"""Computes a network's nodes with PyTorch, one by one: for scales, and to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n

from .nodes import FusedLayer, StatefulRecurrent


@torch.no_grad()
def values_of(network: n.Network, inputs: Sequence[Tensor]) -> dict[n.Node, Tensor]:
    """The value of every node, from the network's inputs in order."""
    found: dict[n.Node, Tensor] = {}
    given = dict(zip(network.inputs, inputs, strict=True))
    for node in network.nodes:
        if isinstance(node, n.Input):
            found[node] = given[node]
        else:
            found[node] = _value(node, [found[read] for read in node.inputs])
    return found


def _value(node: n.Node, given: list[Tensor]) -> Tensor:
    return RULES[type(node)](node, *given)


def _tensor(array: Any) -> Tensor | None:
    return None if array is None else torch.from_numpy(array.copy())


def _constant(node: n.Constant) -> Tensor:
    return torch.from_numpy(node.value.copy())


def _linear(node: n.Linear, value: Tensor) -> Tensor:
    weight = _tensor(node.weight)
    assert weight is not None
    return F.linear(value, weight, _tensor(node.bias))


def _conv(node: n.Conv, value: Tensor) -> Tensor:
    weight = _tensor(node.weight)
    assert weight is not None
    (top, bottom), (left, right) = node.padding
    padded = F.pad(value, (left, right, top, bottom))
    return F.conv2d(padded, weight, _tensor(node.bias), node.stride, 0, node.dilation, node.groups)


def _transposed(node: n.TransposedConv, value: Tensor) -> Tensor:
    weight = _tensor(node.weight)
    assert weight is not None
    plain = [
        (size - 1) * step - 2 * pad + gap * (taps - 1) + 1
        for size, step, pad, gap, taps in zip(
            value.shape[2:], node.stride, node.padding, node.dilation, weight.shape[2:], strict=True
        )
    ]
    more = (node.shape[2] - plain[0], node.shape[3] - plain[1])
    bias = _tensor(node.bias)
    return F.conv_transpose2d(
        value, weight, bias, node.stride, node.padding, more, node.groups, node.dilation
    )


def _layer(node: FusedLayer, value: Tensor) -> Tensor:
    value = _value(node.core, [value])
    if node.tile != (1, 1):
        value = F.max_pool2d(value, node.tile)
    return value.clamp(node.low, node.high)


def _recurrent(node: StatefulRecurrent, value: Tensor, *first: Tensor) -> Tensor:
    layer = _recurrent_module(node, value.shape[1])
    states = [one.reshape(1, 1, -1) for one in first]
    sequence = value.flip(0) if node.backward else value
    out, last = layer(sequence[None], tuple(states) if len(states) == 2 else states[0])
    rows = out[0].flip(0) if node.backward else out[0]
    return torch.cat([rows, last[1][0]]) if node.kind == "lstm" else rows


def _recurrent_module(node: StatefulRecurrent, inputs: int) -> Any:
    kinds: dict[str, Any] = {
        "gru": torch.nn.GRU,
        "lstm": torch.nn.LSTM,
        "rnn_tanh": torch.nn.RNN,
        "rnn_relu": partial(torch.nn.RNN, nonlinearity="relu"),
    }
    has_bias = node.bias[0] is not None
    layer = kinds[node.kind](inputs, node.size, batch_first=True, bias=has_bias)
    arrays = [*node.weight, *(node.bias if has_bias else ())]
    for parameter, array in zip(layer.parameters(), arrays, strict=True):
        parameter.copy_(_tensor(array))
    return layer


def _pad(node: n.Pad, value: Tensor) -> Tensor:
    sides = [count for pair in reversed(node.sides) for count in pair]
    return F.pad(value, sides, value=node.value)


def _slice(node: n.Slice, value: Tensor) -> Tensor:
    count = node.shape[node.dimension]
    places = node.start + node.step * torch.arange(count)
    return value.index_select(node.dimension, places)


def _norm(node: n.LayerNorm, value: Tensor) -> Tensor:
    shape = value.shape[-1:]
    if node.rms:
        return F.rms_norm(value, shape, _tensor(node.weight), node.eps)
    return F.layer_norm(value, shape, _tensor(node.weight), _tensor(node.bias), node.eps)


def _group_norm(node: n.GroupNorm, value: Tensor) -> Tensor:
    return F.group_norm(value, node.groups, _tensor(node.weight), _tensor(node.bias), node.eps)


def _product(_: n.Product, one: Tensor, other: Tensor) -> Tensor:
    return one @ other


def _attention(node: n.Attention, q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
    scores = node.scale * (q @ k.transpose(-1, -2))
    if node.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    for one in mask:
        is_choice = one.dtype == torch.bool
        scores = scores.masked_fill(~one, -math.inf) if is_choice else scores + one
    return scores.softmax(-1) @ v


def _reduce(node: n.Reduce, value: Tensor) -> Tensor:
    return getattr(value, node.function)(node.dimensions, keepdim=True)  # type: ignore[no-any-return]


def _pool(node: n.Pool, value: Tensor) -> Tensor:
    if node.largest:
        return F.max_pool2d(value, node.kernel, node.stride, node.padding, node.dilation)
    counts, divisor = node.counts_padding, node.divisor
    return F.avg_pool2d(
        value, node.kernel, node.stride, node.padding, False, counts, divisor_override=divisor
    )


def _upsample(node: n.Upsample, value: Tensor) -> Tensor:
    for axis, (first, second, weight) in ((2, node.lines), (3, node.pixels)):
        share = torch.from_numpy(weight.copy()).reshape(-1, *(1,) * (3 - axis))
        one, other = (
            value.index_select(axis, torch.from_numpy(places.copy()).long())
            for places in (first, second)
        )
        value = one + share * (other - one)
    return value


def apply(function: Function, x: float, y: float, *given: Tensor) -> Tensor:
    """A function of elements."""
    if function in CONSTANTS:
        return CONSTANTS[function](given[0], x, y)
    return FUNCTIONS[function](*given)


FUNCTIONS: dict[Function, Callable[..., Tensor]] = {
    Function.COPY: torch.clone,
    Function.RELU: F.relu,
    Function.RELU6: F.relu6,
    Function.SIGMOID: torch.sigmoid,
    Function.TANH: torch.tanh,
    Function.SILU: F.silu,
    Function.GELU: F.gelu,
    Function.GELU_TANH: partial(F.gelu, approximate="tanh"),
    Function.HARD_SIGMOID: F.hardsigmoid,
    Function.HARD_SWISH: F.hardswish,
    Function.SOFTPLUS: F.softplus,
    Function.MISH: F.mish,
    Function.EXP: torch.exp,
    Function.LOG: torch.log,
    Function.ERF: torch.erf,
    Function.SQRT: torch.sqrt,
    Function.RSQRT: torch.rsqrt,
    Function.RECIPROCAL: torch.reciprocal,
    Function.ABS: torch.abs,
    Function.NEG: torch.neg,
    Function.SQUARE: torch.square,
    Function.SIN: torch.sin,
    Function.COS: torch.cos,
    Function.FLOOR: torch.floor,
    Function.CEIL: torch.ceil,
    Function.ROUND: torch.round,
    Function.SIGN: torch.sign,
    Function.ADD: torch.add,
    Function.SUB: torch.sub,
    Function.MUL: torch.mul,
    Function.DIV: torch.div,
    Function.MAX: torch.maximum,
    Function.MIN: torch.minimum,
    Function.PRELU: lambda value, slope: torch.where(value > 0, value, value * slope),
    Function.KEEP: lambda value, where: torch.where(where > 0, value, 0.0),
}
"""Functions without constants."""

CONSTANTS: dict[Function, Callable[[Tensor, float, float], Tensor]] = {
    Function.LEAKY_RELU: lambda value, x, _: F.leaky_relu(value, x),
    Function.ELU: lambda value, x, _: F.elu(value, x),
    Function.CLAMP: torch.clamp,
    Function.AFFINE: lambda value, x, y: value * x + y,
    Function.POW: lambda value, x, _: value**x,
}
"""Functions with one or two constants."""

RULES: dict[type[n.Node], Callable[..., Tensor]] = {
    n.Constant: _constant,
    n.Linear: _linear,
    n.Conv: _conv,
    n.TransposedConv: _transposed,
    FusedLayer: _layer,
    StatefulRecurrent: _recurrent,
    n.Map: lambda node, *given: apply(node.function, node.x, node.y, *given),
    n.Reshape: lambda node, value: value.reshape(node.shape),
    n.Permute: lambda node, value: value.permute(node.dimensions),
    n.Slice: _slice,
    n.Expand: lambda node, value: value.expand(node.shape),
    n.Join: lambda node, *given: torch.cat(given, node.dimension),
    n.Pad: _pad,
    n.LayerNorm: _norm,
    n.GroupNorm: _group_norm,
    n.Softmax: lambda node, value: (value.log_softmax if node.log else value.softmax)(
        node.dimension
    ),
    n.Product: _product,
    n.Attention: _attention,
    n.Reduce: _reduce,
    n.Pool: _pool,
    n.Upsample: _upsample,
    n.Embedding: lambda node, ids: F.embedding(ids, torch.from_numpy(node.table.copy())),
}
"""How to compute each kind of node."""
