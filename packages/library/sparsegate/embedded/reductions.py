"""Writes pools, reductions, norms, softmax and products of activations in C."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.engine import network as n

from . import kernels as k
from .functions import number
from .loops import broadcast_strides, dense_strides, nest
from .rows import factor_and_shift
from .writer import Writer


def pool(writer: Writer, node: n.Node) -> list[str]:
    """The largest value or the mean of windows."""
    assert isinstance(node, n.Pool)
    (read,) = node.inputs
    height, width = read.shape[2:]
    value = f"a[line * {width} + pixel]"
    ends = _ends(node, height, width)
    return [
        *writer.opened(node),
        f"for (int32_t p = 0; p < {node.shape[0] * node.shape[1]}; p++, a += {height * width})",
        f"for (int32_t i = 0; i < {node.shape[2]}; i++)",
        f"for (int32_t j = 0; j < {node.shape[3]}; j++) {{",
        f"    {_sum_type(writer, read)} sum = {_first(writer, node)};",
        "    int32_t count = 0;",
        f"    for (int32_t u = 0; u < {node.kernel[0]}; u++)",
        f"    for (int32_t v = 0; v < {node.kernel[1]}; v++) {{",
        f"        const int32_t line = i * {node.stride[0]} - {node.padding[0]} "
        f"+ u * {node.dilation[0]};",
        f"        const int32_t pixel = j * {node.stride[1]} - {node.padding[1]} "
        f"+ v * {node.dilation[1]};",
        f"        const int is_in = line >= 0 && line < {height} && pixel >= 0 && pixel < {width};",
        *(f"        {line}" for line in _taken(writer, node, value, ends)),
        "    }",
        f"    *y++ = {_pooled(writer, node)};",
        "}",
    ]


def _sum_type(writer: Writer, read: n.Node) -> str:
    return "float" if writer.scale(read) is None else "int32_t"


def _first(writer: Writer, node: n.Pool) -> str:
    if not node.largest:
        return "0"
    return "-HUGE_VALF" if writer.scale(node) is None else "-128"


def _ends(node: n.Pool, height: int, width: int) -> tuple[int, int]:
    return height + node.padding[0], width + node.padding[1]


def _taken(writer: Writer, node: n.Pool, value: str, ends: tuple[int, int]) -> list[str]:
    if node.largest:
        return [f"if (is_in && !({value} <= sum)) sum = {value};", "count++;"]
    scale = writer.scale(node)
    zero = 0 if scale is None else scale.zero
    counts = f"line < {ends[0]} && pixel < {ends[1]}" if node.counts_padding else "is_in"
    return [f"if (is_in) sum += {value} - {zero};", f"count += {counts};"]


def _pooled(writer: Writer, node: n.Pool) -> str:
    scale = writer.scale(node)
    if node.largest:
        return "sum" if scale is None else "(int8_t)sum"
    count = "count" if node.divisor is None else str(node.divisor)
    if scale is None:
        return f"sum / (float){count}"
    half = f"{count} / 2"
    mean = f"(sum >= 0 ? sum + {half} : sum - {half}) / {count} + {scale.zero}"
    writer.need("rescaled", k.RESCALED)
    return f"within({mean}, -128, 127)"


def reduce(writer: Writer, node: n.Node) -> list[str]:
    """The sum, mean, maximum or minimum over dimensions."""
    assert isinstance(node, n.Reduce)
    (read,) = node.inputs
    own = dense_strides(read.shape)
    over = [dim in node.dimensions for dim in range(len(read.shape))]
    sizes = [size if inside else 1 for size, inside in zip(read.shape, over, strict=True)]
    first, step, last = _reduction(writer, node, math.prod(sizes))
    sum_type = "float" if writer.scale(node) is None else "int32_t"

    def outer(at: list[str]) -> list[str]:
        inner = nest(sizes, [own], lambda to: [step.format(f"a[{at[1]} + {to[0]}]")], letter="j")
        return [f"{sum_type} sum = {first};", *inner, f"y[{at[0]}] = {last};"]

    loops = nest(node.shape, [dense_strides(node.shape), own], outer)
    return [*writer.opened(node), *loops]


def _reduction(writer: Writer, node: n.Reduce, count: int) -> tuple[str, str, str]:
    """How a reduction begins, takes in an element, and ends."""
    source, target = writer.scale(node.inputs[0]), writer.scale(node)
    if node.function in ("amax", "amin"):
        sign = "<=" if node.function == "amax" else ">="
        least = "-HUGE_VALF" if node.function == "amax" else "HUGE_VALF"
        if target is not None:
            least = "-128" if node.function == "amax" else "127"
        return (
            least,
            f"if (!({{0}} {sign} sum)) sum = {{0}};",
            ("sum" if target is None else "(int8_t)sum"),
        )
    share = 1 / count if node.function == "mean" else 1.0
    if source is None or target is None:
        return "0.0f", "sum += {0};", f"sum * {number(share)}"
    writer.need("rescaled", k.RESCALED)
    factor, shift = factor_and_shift(share * source.step / target.step)
    last = f"within(rescaled(sum, {factor}, {shift}) + {target.zero}, -128, 127)"
    return "0", f"sum += {{0}} - {source.zero};", last


def softmax(writer: Writer, node: n.Node) -> list[str]:
    """Softmax over one dimension."""
    assert isinstance(node, n.Softmax)
    size, step = node.shape[node.dimension], dense_strides(node.shape)[node.dimension]
    others = [1 if dim == node.dimension else count for dim, count in enumerate(node.shape)]
    last = "y[at] = a[at] - most - logf(sum);" if node.log else "y[at] = expf(a[at] - most) / sum;"
    loop = f"for (int32_t j = 0, at = {{}}; j < {size}; j++, at += {step})"

    def inside(at: list[str]) -> list[str]:
        head = loop.format(at[0])
        return [
            "float most = -HUGE_VALF, sum = 0.0f;",
            f"{head} most = a[at] > most ? a[at] : most;",
            f"{head} sum += expf(a[at] - most);",
            f"{head} {last}",
        ]

    return [*writer.opened(node), *nest(others, [dense_strides(node.shape)], inside)]


def layer_norm(writer: Writer, node: n.Node) -> list[str]:
    """Normalization over the last dimension."""
    assert isinstance(node, n.LayerNorm)
    size = node.shape[-1]
    middle = "0.0f" if node.rms else f"sum / {number(float(size))}"
    return [
        *writer.opened(node),
        f"for (int32_t p = 0; p < {math.prod(node.shape[:-1])}; p++, a += {size}, y += {size}) {{",
        *_statistics(size, middle, node.eps),
        f"    for (int32_t i = 0; i < {size}; i++) y[i] = {_affine(writer, node, 'i')};",
        "}",
    ]


def _statistics(size: int, middle: str, eps: float) -> list[str]:
    return [
        "    float sum = 0.0f, squares = 0.0f;",
        f"    for (int32_t i = 0; i < {size}; i++) sum += a[i];",
        f"    const float mean = {middle};",
        f"    for (int32_t i = 0; i < {size}; i++) squares += (a[i] - mean) * (a[i] - mean);",
        f"    const float scale = 1.0f / sqrtf(squares / {number(float(size))} + {number(eps)});",
    ]


def _affine(writer: Writer, node: n.LayerNorm | n.GroupNorm, channel: str) -> str:
    value = "(a[i] - mean) * scale"
    if node.weight is not None:
        value += f" * {writer.array(_single(node.weight))}[{channel}]"
    if node.bias is not None:
        value += f" + {writer.array(_single(node.bias))}[{channel}]"
    return value


def _single(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, np.float32)


def group_norm(writer: Writer, node: n.Node) -> list[str]:
    """Normalization over groups of channels."""
    assert isinstance(node, n.GroupNorm)
    batch, channels, *image = node.shape
    each, plane = channels // node.groups, math.prod(image)
    size = each * plane
    channel = f"p % {node.groups} * {each} + i / {plane}"
    return [
        *writer.opened(node),
        f"for (int32_t p = 0; p < {batch * node.groups}; p++, a += {size}, y += {size}) {{",
        *_statistics(size, f"sum / {number(float(size))}", node.eps),
        f"    for (int32_t i = 0; i < {size}; i++) y[i] = {_affine(writer, node, channel)};",
        "}",
    ]


def product(writer: Writer, node: n.Node) -> list[str]:
    """The matrix product of two activations."""
    one, other = node.inputs
    rows, inner = one.shape[-2:]
    columns = other.shape[-1]
    leading = node.shape[:-2]
    strides = [dense_strides(node.shape)[:-2]]
    for read in (one, other):
        shape = read.shape[:-2]
        size = math.prod(read.shape[-2:])
        strides.append(tuple(size * step for step in broadcast_strides(shape, leading)))

    def inside(at: list[str]) -> list[str]:
        return [
            f"for (int32_t i = 0; i < {rows}; i++)",
            f"for (int32_t j = 0; j < {columns}; j++) {{",
            "    float sum = 0.0f;",
            f"    for (int32_t k = 0; k < {inner}; k++)",
            f"        sum += a[{at[1]} + i * {inner} + k] * b[{at[2]} + k * {columns} + j];",
            f"    y[{at[0]} + i * {columns} + j] = sum;",
            "}",
        ]

    return [*writer.opened(node), *nest(leading, strides, inside, letter="n")]


def attention(writer: Writer, node: n.Node) -> list[str]:
    """Softmax(scale * q k^T + mask) v, one query at a time."""
    assert isinstance(node, n.Attention)
    q, keys, values = node.inputs[:3]
    (batch, heads, queries, features), many = q.shape, keys.shape[2]
    width = values.shape[3]
    last = "i + 1" if node.causal else str(many)
    return [
        *writer.opened(node),
        f"float *score = {writer.scratch(node)};",
        f"for (int32_t n = 0; n < {batch}; n++)",
        f"for (int32_t h = 0; h < {heads}; h++)",
        f"for (int32_t i = 0; i < {queries}; i++, a += {features}, y += {width}) {{",
        f"    const float *key = b + {_place(keys)};",
        f"    const float *value = c + {_place(values)};",
        "    float most = -HUGE_VALF, sum = 0.0f;",
        f"    for (int32_t j = 0; j < {last}; j++) {{",
        "        float dot = 0.0f;",
        f"        for (int32_t k = 0; k < {features}; k++) dot += a[k] * key[j * {features} + k];",
        f"        score[j] = dot * {number(node.scale)}{_mask(node)};",
        *([_hidden(node)] if _is_choice(node) else []),
        "        most = score[j] > most ? score[j] : most;",
        "    }",
        f"    for (int32_t j = 0; j < {last}; j++) sum += score[j] = expf(score[j] - most);",
        f"    for (int32_t k = 0; k < {width}; k++) {{",
        "        float total = 0.0f;",
        f"        for (int32_t j = 0; j < {last}; j++) total += score[j] * value[j * {width} + k];",
        "        y[k] = total / sum;",
        "    }",
        "}",
    ]


def _place(read: n.Node) -> str:
    """Where the keys or values of image `n` and head `h` begin; a size of one is shared by all."""
    size = math.prod(read.shape[2:])
    image = 0 if read.shape[0] == 1 else size * read.shape[1]
    head = 0 if read.shape[1] == 1 else size
    return f"n * {image} + h * {head}"


def _mask_place(mask: n.Node) -> str:
    steps = broadcast_strides(mask.shape, (2, 2, 2, 2))
    return " + ".join(f"{letter} * {step}" for letter, step in zip("nhij", steps, strict=True))


def _is_choice(node: n.Attention) -> bool:
    """Whether a mask says which keys are seen."""
    return len(node.inputs) == 4 and is_choice(node.inputs[3])


def is_choice(mask: n.Node) -> bool:
    """Whether a mask holds booleans instead of numbers."""
    return isinstance(mask, n.Constant) and mask.value.dtype == bool


def _mask(node: n.Attention) -> str:
    if len(node.inputs) < 4 or _is_choice(node):
        return ""
    return f" + d[{_mask_place(node.inputs[3])}]"


def _hidden(node: n.Attention) -> str:
    return f"        if (!d[{_mask_place(node.inputs[3])}]) score[j] = -HUGE_VALF;"
