"""A mean over all places, as a layer of a chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from .chain import Layer
from .sparsable import NOTHING, Piece, Unit, calls, flattens, shape_of

MEANS: tuple[Any, ...] = (torch.mean, "mean")
ADAPTIVE: tuple[Any, ...] = (F.adaptive_avg_pool2d,)


@dataclass(frozen=True)
class Mean(Unit):
    """The mean of every channel over all places, as a convolution of every channel with one large window."""

    nodes: list[fx.Node]
    shapes: dict[str, tuple[int, ...]]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """None: it has no weights of its own."""
        return ()

    @property
    def layers(self) -> list[Layer]:
        """The convolution."""
        channels, height, width = self.shapes["in"]
        window = torch.full((channels, 1, height, width), 1 / (height * width))
        return [Layer(window, None, (channels, height, width), groups=channels)]


def mean_at(node: fx.Node, graph: fx.GraphModule) -> Mean | None:
    """The mean over all places of a node, with the flattening after it, if the node is one."""
    before = shape_of(node.args[0]) if node.args else ()
    is_adaptive = calls(node, graph, (nn.AdaptiveAvgPool2d,), ADAPTIVE)
    if len(before) != 4 or not (
        is_adaptive or (calls(node, graph, (), MEANS) and _is_over_places(node))
    ):
        return None
    if shape_of(node) not in ((*before[:2], 1, 1), before[:2]) or shape_of(node) == before:
        return None
    nodes = [node]
    while len(nodes[-1].users) == 1:
        after = next(iter(nodes[-1].users))
        nothing = calls(after, graph, NOTHING, ()) and shape_of(after) == shape_of(nodes[-1])
        if not nothing and not flattens(after, nodes[-1], graph):
            break
        nodes.append(after)
    return Mean(nodes, {"in": before[1:], "out": shape_of(nodes[-1])[1:]})


def _is_over_places(node: fx.Node) -> bool:
    given = {**dict(zip(("input", "dim", "keepdim"), node.args, strict=False)), **node.kwargs}
    places = given.get("dim")
    if not isinstance(places, tuple | list) or set(given) - {"input", "dim", "keepdim"}:
        return False
    return (
        sorted(place % 4 for place in places if isinstance(place, int)) == [2, 3]
        and len(places) == 2
    )
