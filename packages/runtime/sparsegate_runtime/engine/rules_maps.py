"""Lowers functions of elements, as the end of a layer where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import network as n
from . import structures as c
from .functions import Function
from .fuse import Group, compiled
from .layout import Written
from .planner import Planner, merged, view_of
from .structures import Kind
from .sums import Sums, emit, is_matrix_vector, sums_of
from .tensor import LANES, Positions, Tensor

ALIGNED = 16


def mapped(planner: Planner, node: n.Map) -> Tensor:
    """A group of functions of elements, as the end of a layer if they can be."""
    group = planner.groups[node]
    if group.base is None:
        return _pass(planner, group, _leaves(planner, group, None))
    sums = sums_of(planner, group.base)
    finished = _finish(planner, group, sums)
    if finished is None:
        emit(planner, sums, c.Finish(-np.inf, 0, None, None))
        return _pass(planner, group, _leaves(planner, group, sums.out.permute(group.permuted)))
    return finished.permute(group.permuted)


def _leaves(planner: Planner, group: Group, base: Tensor | None) -> list[Tensor]:
    skip = 0 if base is None else 1
    found = [planner.owned(planner.values[leaf]) for leaf in group.leaves[skip:]]
    return found if base is None else [base, *found]


# -- at the end of a layer -------------------------------------------------------------------------


def _finish(planner: Planner, group: Group, sums: Sums) -> Tensor | None:
    """The layer with these functions applied to its sums; None if an operand lies elsewhere."""
    border = planner.borders.value(group.out)
    bounds = _bounds(group)
    if bounds is not None and (bounds == (0.0, 0.0) or not is_matrix_vector(sums)):
        emit(planner, sums, c.Finish(*bounds, None, None), border=border)
        return sums.out
    inverse = [group.permuted.index(dim) for dim in range(len(group.permuted))]
    operands: list[tuple[Tensor, tuple[int, int]]] = []
    for leaf in group.leaves[1:]:
        whole = planner.values[leaf].expand(group.out.shape).permute(inverse)
        found = _along(planner, leaf, whole, sums, inverse, group.out.shape)
        if found is None:
            return None
        operands.append(found)
    code, result, _ = compiled(group, group.leaves)
    emit(
        planner,
        sums,
        c.Finish(-np.inf, 0, None, None),
        border=border,
        reads=tuple(tensor for tensor, _ in operands),
        then=lambda: _then(sums, operands, code, result),
    )
    return sums.out


def _bounds(group: Group) -> tuple[float, float] | None:
    """The least and the most value of a function that only cuts values off; a most of 0 is none."""
    (one,) = group.maps if len(group.maps) == 1 else (None,)
    if one is None or len(one.inputs) != 1:
        return None
    if one.function == Function.RELU:
        return 0.0, 0.0
    if one.function == Function.RELU6:
        return 0.0, 6.0
    if one.function == Function.CLAMP and one.y > max(0.0, one.x):
        return one.x, one.y if np.isfinite(one.y) else 0.0
    return None


def _then(
    sums: Sums, operands: Sequence[tuple[Tensor, tuple[int, int]]], code: Any, result: int
) -> c.Pointwise:
    views = [view_of(sums.out, (sums.out.strides[sums.out_channel], 1))]
    views += [view_of(tensor, strides) for tensor, strides in operands]
    made = c.Pointwise()
    made.dims, made.shape = 2, c.DIMS(sums.out.shape[sums.out_channel], sums.extent)
    made.num_inputs, made.num_code, made.result = len(views), len(code), result
    made.inputs = (c.View * c.MOST_INPUTS)(*views)
    made.out = views[0]
    made.code = (c.Instruction * c.MOST_CODE)(*code)
    return made


def _along(
    planner: Planner,
    leaf: n.Node,
    operand: Tensor,
    sums: Sums,
    inverse: Sequence[int],
    shape: Sequence[int],
) -> tuple[Tensor, tuple[int, int]] | None:
    """An operand with its strides along channels and positions; None if it has none."""
    channel, out = sums.out_channel, sums.out
    others = [dim for dim in range(len(out.shape)) if dim != channel and out.shape[dim] > 1]
    steps = [operand.strides[dim] for dim in others]
    if not any(steps):
        return operand, (operand.strides[channel], 0)
    if steps == [out.strides[dim] for dim in others] and not operand.buffer.slot:
        return operand, (operand.strides[channel], 1)
    if not operand.buffer.slot and repeats(operand, out, others):
        return operand, (operand.strides[channel], c.REPEATS)
    if isinstance(leaf, n.Constant):
        whole = np.broadcast_to(leaf.value, tuple(shape)).transpose(inverse)
        return laid_out(planner, whole, out), (out.strides[channel], 1)
    return None


def laid_out(planner: Planner, value: Any, like: Tensor) -> Tensor:
    """A constant with the strides of another tensor."""
    lead = like.buffer.lead
    room = np.zeros(like.buffer.size, np.float32)
    bytes_each = tuple(4 * stride for stride in like.strides)
    target = np.lib.stride_tricks.as_strided(room[like.offset :], like.shape, bytes_each)
    target[...] = value
    buffer = planner.slots.add(constant=room)
    buffer.lead = lead
    return Tensor(buffer, like.offset, like.shape, like.strides)


# -- on their own ----------------------------------------------------------------------------------


def _pass(planner: Planner, group: Group, leaves: list[Tensor]) -> Tensor:
    """One pass over the elements."""
    shape = group.out.shape
    lead = _leading(planner, leaves, shape)
    out = _alike(lead, shape)
    for index, leaf in enumerate(group.leaves):
        if isinstance(leaf, n.Constant) and leaf.value.size > 1:
            leaves[index] = _constant_like(planner, leaf, out)
    operands = [leaf.expand(shape) for leaf in leaves]
    sizes, strides, positions = _flattened([*operands, out])
    whole = positions is not None and len(sizes) == 2
    written = Written()
    if positions is not None:
        border = planner.borders.value(group.out)
        written = planner.layout.written(out, _channel(out), border, positions)
    mask = written.mask
    code, result, _ = compiled(group, group.leaves)

    def make() -> c.Structure:
        views = [view_of(one, own) for one, own in zip(operands, strides, strict=False)]
        made = c.Pointwise()
        made.dims, made.shape = len(sizes), c.DIMS(*sizes)
        made.num_inputs, made.num_code, made.result = len(views), len(code), result
        made.inputs = (c.View * c.MOST_INPUTS)(*views)
        made.out = view_of(out, strides[-1])
        made.code = (c.Instruction * c.MOST_CODE)(*code)
        made.inside = None if mask is None else mask.ctypes.data
        made.keep = (mask,)
        return made

    planner.emit(
        Kind.POINTWISE,
        make,
        operands,
        out,
        extent=sizes[-1] if whole else -sizes[-1],
        ranges=written.ranges if whole else (),
    )
    return out


def _leading(planner: Planner, leaves: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """The operand whose layout the result takes over."""
    whole = [leaf for leaf in leaves if leaf.shape == tuple(shape)]
    ours = [leaf for leaf in whole if not leaf.buffer.slot and _is_dense(leaf)]
    if ours:
        return ours[0]
    plain = whole or [leaf.expand(shape) for leaf in leaves]
    return planner.like_order(shape, plain)


def _is_dense(tensor: Tensor) -> bool:
    """Whether every element has a place of its own, with few gaps."""
    found = tensor.positions(_channel(tensor))
    return found is not None and all(
        stride > 0 for stride, size in zip(tensor.strides, tensor.shape, strict=True) if size > 1
    )


def _channel(tensor: Tensor) -> int:
    dims = range(len(tensor.shape))
    real = [dim for dim in dims if tensor.shape[dim] > 1] or [0]
    return max(real, key=lambda dim: tensor.strides[dim])


def _alike(lead: Tensor, shape: Sequence[int]) -> Tensor:
    """A new tensor with the strides of another."""
    if not shape:
        return Tensor(type(lead.buffer)(ALIGNED + 512), 0, (), ())
    smallest = lead.offset
    size = smallest + sum(
        (extent - 1) * stride for extent, stride in zip(shape, lead.strides, strict=True)
    )
    channel = _channel(lead)
    size = max(size, lead.offset + shape[channel] * lead.strides[channel])
    buffer = type(lead.buffer)(size + 512, lead=lead.buffer.lead, extent=lead.buffer.extent)
    return Tensor(buffer, lead.offset, tuple(shape), lead.strides)


def _constant_like(planner: Planner, leaf: n.Constant, out: Tensor) -> Tensor:
    """A constant with its dimensions in the order of another tensor, repeated ones left out."""
    missing = len(out.shape) - len(leaf.value.shape)
    value = leaf.value.reshape((1,) * missing + leaf.value.shape)
    order = sorted(range(value.ndim), key=lambda dim: (-out.strides[dim], dim))
    made = planner.constant(np.ascontiguousarray(value.transpose(order), np.float32))
    inverse = [order.index(dim) for dim in range(value.ndim)]
    return made.permute(inverse)


def _flattened(tensors: Sequence[Tensor]) -> tuple[list[int], list[list[int]], Positions | None]:
    """Sizes and strides of a pass, and the positions that its last dimension runs over.

    Positions are taken together, gaps and all, where every tensor has the strides of the last one
    or repeats one element.
    """
    out = tensors[-1]
    channel = _channel(out)
    inner = [dim for dim in range(len(out.shape)) if dim != channel and out.shape[dim] > 1]
    inner.sort(key=lambda dim: out.strides[dim])
    while inner and not all(_follows(one, out, inner) for one in tensors):
        inner.pop()
    found = Positions.of([out.shape[d] for d in inner], [out.strides[d] for d in inner])
    whole = out.positions(channel)
    if (
        found
        and whole
        and len(inner) == sum(size > 1 for size in out.shape) - (out.shape[channel] > 1)
    ):
        found = whole
    if not inner or found is None:
        sizes, strides = merged(out.shape, [one.strides for one in tensors])
        if strides[-1][-1] != 1:  # the kernel writes neighbors
            sizes.append(1)
            for own in strides:
                own.append(1)
        return sizes, strides, None
    rest = [dim for dim in range(len(out.shape)) if dim not in inner]
    sizes, strides = merged(
        [out.shape[dim] for dim in rest], [[one.strides[dim] for dim in rest] for one in tensors]
    )
    for one, own in zip(tensors, strides, strict=True):
        same = repeats(one, out, inner)
        own.append(c.REPEATS if same else 1 if one.strides[inner[0]] else 0)
    return [*sizes, found.count], strides, found


def _follows(one: Tensor, out: Tensor, dims: Sequence[int]) -> bool:
    steps = [one.strides[dim] for dim in dims]
    return not any(steps) or steps == [out.strides[dim] for dim in dims] or repeats(one, out, dims)


def repeats(one: Tensor, out: Tensor, dims: Sequence[int]) -> bool:
    """Whether a tensor has one value per image of a group, the same for all pixels."""
    images = [dim for dim in dims if out.strides[dim] == 1]
    others = [dim for dim in dims if out.strides[dim] != 1]
    return (
        len(images) == 1
        and bool(others)
        and out.shape[images[0]] == LANES
        and one.strides[images[0]] == 1
        and not any(one.strides[dim] for dim in others)
        and not any(out.strides[dim] % LANES for dim in others)
    )


RULES: dict[type[n.Node], Any] = {n.Map: mapped}
