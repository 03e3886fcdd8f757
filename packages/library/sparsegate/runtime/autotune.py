"""Times the layers of a model dense and sparse, and chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from sparsegate.graph import Conv, Graph, Linear, layer_name
from sparsegate_runtime.kernels import KERNELS, explain_missing

from .choice import Choice, LayerChoice
from .cuda.part import why_not
from .dense_part import DENSE_KERNELS, dense_kernels_for, together
from .measure import interleaved
from .part import kernels_for, sparse_part
from .plan import planned, short_cut
from .sparsable import Piece, pieces

KERNEL_NAMES = ("dense", *DENSE_KERNELS, "chain", "triton", "csr", "hardwired")
WORTH_TRYING = 0.3
"""Large layers with a smaller fraction of zeros than this do not get faster."""
SMALL = 2**19
"""Layers with at most this many weights are tried even without zeros: they spend more time in
torch's call than in arithmetic."""


def forced(graph: Graph, example: Tensor, kernel: str) -> Choice:
    """Chooses one kernel for every layer that it can run."""
    if kernel not in KERNEL_NAMES:
        raise ValueError(
            f"kernel is {', '.join(KERNEL_NAMES[:-1])} or {KERNEL_NAMES[-1]}, got {kernel!r}"
        )
    if kernel == "chain" and KERNELS is None:
        raise ValueError(explain_missing())
    found = pieces(graph)
    if not found and kernel != "dense":
        raise ValueError(
            f"the model has no Linear or Conv2d that {kernel} could run. "
            f"{_left(graph, found)}".strip()
        )
    if kernel == "triton" and found and (reason := why_not(found[0].weight)):
        raise ValueError(reason)
    layers = []
    for piece in found:
        usable = kernel in ("dense", "hardwired") or kernel in dense_kernels_for(
            piece
        ) + kernels_for(piece)
        layers.append(LayerChoice(piece.name, piece.sparsity, kernel if usable else "dense"))
    if kernel not in {"dense", *(each.kernel for each in layers)}:
        raise ValueError(
            f"none of the model's layers can run by {kernel} here; leave kernel out, so that "
            "sg.sparse measures"
        )
    return Choice(len(example), torch.get_num_threads(), str(example.device), tuple(layers))


@torch.no_grad()
def measured(graph: Graph, example: Tensor) -> Choice:
    """Times three plans for the whole network and returns the fastest.

    The plans are: each layer by the kernel that is fastest for it alone, all layers sparse, and all
    layers by torch. Each plan is timed with torch's usual memory format and with channels last.
    """
    found = pieces(graph)
    sources = graph.values([piece.node.input for piece in found], example)
    inputs = {piece.name: sources[piece.node.input] for piece in found}
    timed = [_timed(piece, inputs[piece.name]) for piece in found]
    layers = [each for each, _ in timed]
    candidates = _candidates(
        {each.name: each.kernel for each in layers}, {each.name: best for each, best in timed}
    )
    plans = {name: planned(graph, chosen) for name, chosen in candidates.items()}
    if example.device.type == "cpu" and any(isinstance(piece.node, Conv) for piece in found):
        for name in [name for name, chosen in candidates.items() if "dense" in chosen.values()]:
            candidates[f"{name}, last"] = candidates[name]
            plans[f"{name}, last"] = planned(graph, candidates[name], channels_last=True)
    ways = {
        name: partial(short_cut(graph.model, plan, len(example)), example)
        for name, plan in plans.items()
    }
    times = interleaved(ways, seconds=1.0)
    best = min(times, key=lambda name: times[name])
    best = best if times[best] < 0.99 * times["dense"] else "dense"
    chosen = tuple(
        LayerChoice(
            each.name, each.sparsity, candidates[best][each.name], each.dense_ms, each.sparse_ms
        )
        for each in layers
    )
    context = (len(example), torch.get_num_threads(), str(example.device))
    note = ". ".join(filter(None, (_note(found), _left(graph, found))))
    return Choice(
        *context, chosen, 1e3 * times["dense"], 1e3 * times[best], note, best.endswith("last")
    )


def _candidates(alone: dict[str, str], sparse: dict[str, str]) -> dict[str, dict[str, str]]:
    """The different plans to time: all by torch, each layer by its fastest kernel, all sparse."""
    candidates = {"dense": dict.fromkeys(alone, "dense")}
    for name, chosen in (("each", alone), ("all", sparse)):
        if chosen not in candidates.values():
            candidates[name] = chosen
    return candidates


def _left(graph: Graph, found: list[Piece]) -> str:
    """Names the layers that no kernel can run, each with its reason, if there are any."""
    tried = {piece.name for piece in found}
    calls = Counter(layer_name(layer) or "0" for layer in graph.layers)
    nodes = {layer_name(layer) or "0": layer for layer in graph.layers}
    reasons = [
        f"{name or type(each).__name__} ({_why_left(each, nodes.get(name or '0'), calls)})"
        for name, each in graph.model.named_modules()
        if (name or "0") not in tried
        and not isinstance(each, ParametrizationList)
        and any(parameter.ndim > 1 for parameter in each.parameters(recurse=False))
    ]
    return f"left to torch: {', '.join(reasons)}" if reasons else ""


def _why_left(module: nn.Module, node: Linear | Conv | None, calls: Counter[str]) -> str:
    if not isinstance(module, nn.Linear | nn.Conv2d):
        return f"{type(module).__name__} has no form in a chain"
    if node is None:
        return "the example does not reach it"
    if (times := calls[layer_name(node) or "0"]) > 1:
        return f"called {times} times"
    if not node.batched:
        return "its input is not a batch"
    if isinstance(module, nn.Linear):
        return f"its input has {len(node.shape)} dimensions"
    return "its padding is uneven"


def _note(found: list[Piece]) -> str:
    """Says what is missing for the fastest kernels."""
    weight = found[0].weight if found else torch.zeros(0)
    if weight.is_cuda:
        return why_not(weight)
    if weight.dtype is not torch.float32:
        return f"sparse kernels compute in float32, and the weights are {weight.dtype}"
    return explain_missing() if KERNELS is None else ""


def _timed(piece: Piece, x: Tensor) -> tuple[LayerChoice, str]:
    """Times one layer; also returns its fastest sparse kernel, even if a dense one is faster."""
    ways: dict[str, Callable[[], object]] = {"dense": partial(piece.dense, x)}
    few, others = len(x), dense_kernels_for(piece)
    if others:
        few = min(len(x), together([piece]))  # as many as come at a time from the layer before
    for kernel in others:
        ways[kernel] = partial(
            sparse_part([piece], kernel), x[:few].contiguous(memory_format=torch.channels_last)
        )
    sparse = _worth_trying(piece)
    parts = {kernel: sparse_part([piece], kernel) for kernel in sparse}
    ways |= {kernel: partial(short_cut(part, part, len(x)), x) for kernel, part in parts.items()}
    if len(ways) == 1:
        return LayerChoice(piece.name, piece.sparsity, "dense"), "dense"
    times = interleaved(ways, seconds=0.2)
    times |= {kernel: times[kernel] * len(x) / max(few, 1) for kernel in others}
    best, other = (min(names, key=lambda name: times[name]) for names in (ways, [*ways][1:]))
    chosen = LayerChoice(piece.name, piece.sparsity, best, 1e3 * times["dense"], 1e3 * times[other])
    return chosen, min(sparse, key=lambda kernel: times[kernel], default=best)


def _worth_trying(piece: Piece) -> list[str]:
    """The sparse kernels that may be faster."""
    if piece.sparsity < WORTH_TRYING and piece.weight.numel() > SMALL:
        return []
    kernels = kernels_for(piece)
    return kernels if piece.weight.is_cuda else kernels[:1]  # on a CPU csr has never won
