"""What goes around layers and is added to what they give."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from .sparsable import Piece, padding_of, shape_of


@dataclass(frozen=True)
class Short:
    """What goes around a block: every place of its source, or every second, by a matrix from channels to channels."""

    source: fx.Node
    nodes: tuple[fx.Node, ...]
    stride: tuple[int, int]
    matrix: Tensor
    bias: Tensor | None = None
    piece: Piece | None = None
    """The convolution of one by one places that does it, if one does."""


def shorts(node: Any, ends: Mapping[fx.Node, Piece]) -> Iterator[Short]:
    """How a summand may come from what the other comes from, too."""
    if node in ends and _is_matrix(ends[node]) and len(node.users) == 1:
        piece = ends[node]
        assert isinstance(piece.module, nn.Conv2d)
        weight, bias = piece.folded()
        stride: Any = piece.module.stride
        yield Short(piece.source, tuple(piece.nodes), stride, weight[:, :, 0, 0], bias, piece)
    yield from _unlearned(node)


def _unlearned(node: Any) -> Iterator[Short]:
    """The source itself, or some of its places with channels of zeros before and after its own."""
    nodes, (before, after), stride = [], (0, 0), (1, 1)
    if (padding := _channels_added(node)) is not None and len(node.users) == 1:
        nodes, (before, after), node = [node], padding, node.args[0]
    if (steps := _steps_of(node)) is not None and len(node.users) == 1:
        nodes, stride, node = [*nodes, node], steps, node.args[0]
    if isinstance(node, fx.Node) and len(shape_of(node)) == 4:
        own = shape_of(node)[1]
        yield Short(node, tuple(nodes), stride, F.pad(torch.eye(own), (0, 0, before, after)))


def _channels_added(node: Any) -> tuple[int, int] | None:
    """How many channels of zeros F.pad puts before and after the others, if it does that and nothing else."""
    if not (isinstance(node, fx.Node) and node.target is F.pad and len(shape_of(node)) == 4):
        return None
    given: dict[str, Any] = {
        **dict(zip(("input", "pad", "mode", "value"), node.args, strict=False)),
        **node.kwargs,
    }
    padding, plain = (
        given.get("pad", ()),
        given.get("mode", "constant") == "constant" and not given.get("value"),
    )
    is_it = plain and len(padding) == 6 and not any(padding[:4]) and min(padding[4:]) >= 0
    return (padding[4], padding[5]) if is_it and node.args else None


def _steps_of(node: Any) -> tuple[int, int] | None:
    """The steps of x[:, :, ::2, ::2], if all that is left out are lines and columns between others."""
    if not (
        isinstance(node, fx.Node)
        and node.target is operator.getitem
        and isinstance(node.args[1], tuple)
    ):
        return None
    chosen: Any = node.args[1]
    whole = all(isinstance(each, slice) and each.start is None is each.stop for each in chosen)
    steps = [each.step or 1 for each in chosen] if whole else []
    return (steps[2], steps[3]) if steps[:2] == [1, 1] and len(steps) == 4 else None


def _is_matrix(piece: Piece) -> bool:
    conv = piece.module
    if (
        not isinstance(conv, nn.Conv2d)
        or conv.groups > 1
        or padding_of(conv) != (0, 0)
        or conv.kernel_size != (1, 1)
    ):
        return False
    return not piece.relu and piece.pool == piece.pool_stride == 1 and len(piece.shapes["out"]) == 3
