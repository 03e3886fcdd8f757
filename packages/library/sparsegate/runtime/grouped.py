"""Chooses how many images of a batch pass through a network together: fewer stay in the caches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from sparsegate.graph import Graph
from sparsegate_runtime.engine import LANES, Span
from sparsegate_runtime.engine import network as n

from .planned import TYPES, Cost, Planned
from .translate import translated

SIZES = (4, 1)
"""Group sizes to try for sequences; images pass in sixteens side by side, or one by one."""
ROUNDS = 3
SLOW = 0.1
"""Seconds of a call that is made only twice."""
BETTER = 0.97
"""A group must take less than this fraction of the time of the whole batch."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """A plan that runs once for each group of images in a batch."""

    plan: Planned
    groups: int = 1

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Returns the outputs for the whole batch."""
        return self.plan(leaves, self.groups)

    def spans(self, leaves: Sequence[Any]) -> list[Span]:
        """The time of each step, one group after the other."""
        return self.plan.spans(leaves, self.groups)

    def costs(self, leaves: Sequence[Any]) -> list[Cost]:
        """The cost of each layer for the whole batch."""
        return self.plan.costs(leaves, self.groups)

    def zeros(self) -> list[Tensor]:
        """Inputs of the right shapes and types, all zero, in the order of the plan's inputs."""
        made = []
        for one in self.plan.inputs:
            shape = one.shape if self.groups == 1 else (self.groups * one.shape[0], *one.shape[1:])
            made.append(torch.zeros(shape, dtype=TYPES[one.kind]))
        return made


def fastest(
    capture: Callable[[Any], Graph], given: Any, progress: Callable[[str], None] | None = None
) -> Grouped:
    """The fastest of a plan for the whole batch and plans for groups of its images.

    Args:
        capture: captures the model for inputs like these: positional and keyword arguments.
        given: the inputs.
        progress: hears a sentence about each plan that is tried.

    """
    say = progress or _silent
    say("capturing the model's operations")
    graph = capture(given)
    network = translated(graph)
    leaves = _pytree.tree_leaves(given)
    batch = _batch(leaves, network)
    has_images = any(isinstance(one, n.Conv | n.Pool) for one in network[0].nodes)
    best, least, wanted = None, 0.0, None
    ways = _ways(batch, has_images=has_images)
    while ways:
        size, side_by_side = ways.pop(0)
        is_whole = size == batch and not side_by_side
        say(_words(size, is_whole=is_whole, side_by_side=side_by_side))
        try:
            part = capture(_first(given, size)) if size < batch else graph
            made = Planned(part, network if part is graph else None, side_by_side=side_by_side)
            other = Grouped(made, batch // size)
            seconds, outputs = _timed(other, leaves)
        except ValueError:
            if is_whole:
                raise
            continue
        if best is None:
            best, least, wanted = other, seconds, outputs
            ways = [way for way in ways if way != (batch, False)]
        elif not _agree(outputs, wanted):
            break  # images have an effect on others
        elif seconds < BETTER * least:
            best, least = other, seconds
        elif not side_by_side:
            break  # smaller groups read the weights still more often
    assert best is not None
    return best


def _words(size: int, *, is_whole: bool, side_by_side: bool) -> str:
    if is_whole:
        return "planning the whole batch"
    return f"planning groups of {size} images{' side by side' if side_by_side else ''}"


def _silent(_: str) -> None:
    """Says nothing."""


def _ways(batch: int, *, has_images: bool) -> list[tuple[int, bool]]:
    """Sizes of groups to try, and whether the images of a group lie side by side."""
    whole = [(batch, False)]
    if not has_images:
        return whole + [(size, False) for size in SIZES if batch > size and batch % size == 0]
    side_by_side = [(LANES, True)] if batch % LANES == 0 else []
    found = side_by_side + whole if batch == LANES else whole + side_by_side
    return found + [(1, False)] * (batch > 1)


def _batch(leaves: Sequence[Any], network: tuple[n.Network, list[str]]) -> int:
    """The number of images in the batch; 1 if the tensors differ in it."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    sizes = {one.shape[0] if one.ndim else 0 for one in tensors}
    sizes |= {one.shape[0] if one.shape else 0 for one in network[0].outputs}
    return sizes.pop() if len(sizes) == 1 and not network[1] else 1


def _first(given: Any, size: int) -> Any:
    return _pytree.tree_map_only(Tensor, lambda one: one[:size].contiguous(), given)


def _agree(one: Any, other: Any) -> bool:
    pairs = zip(_pytree.tree_leaves(one), _pytree.tree_leaves(other), strict=True)
    return all(
        not isinstance(a, Tensor)
        or (a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=_slack(b), equal_nan=True))
        for a, b in pairs
    )


def _slack(tensor: Tensor) -> float:
    finite = tensor.nan_to_num(0, 0, 0)
    return 1e-4 * float(finite.abs().max()) if tensor.numel() else 0.0


def _timed(run: Grouped, leaves: Sequence[Any]) -> tuple[float, Any]:
    """The least seconds of a call, and what it gives."""
    began = time.perf_counter()
    outputs = run(leaves)
    rounds = ROUNDS if time.perf_counter() - began < SLOW else 1
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run(leaves)
        times.append(time.perf_counter() - began)
    return min(times), outputs
