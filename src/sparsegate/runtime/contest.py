"""Times the layers of a model dense and sparse, and chooses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, fx, nn

from sparsegate.kernels import KERNELS, explain_missing

from .choice import Choice, LayerChoice
from .measure import interleaved
from .part import kernels_for, sparse_part
from .pieces import Piece, pieces, traced
from .plan import planned

WORTH_TRYING = 0.3
"""No kernel gains from fewer zeros than this."""


def forced(model: nn.Module, example: Tensor, kernel: str) -> Choice:
    """The choice of one kernel wherever it can be used."""
    if kernel not in ("dense", "chain", "csr", "hardwired"):
        raise ValueError(f"kernel is dense, chain, csr or hardwired, got {kernel!r}")
    if kernel == "chain" and KERNELS is None:
        raise ValueError(explain_missing())
    layers = []
    for piece in pieces(traced(model, example)):
        usable = kernel in ("dense", "hardwired") or kernel in kernels_for(piece)
        layers.append(LayerChoice(piece.name, piece.sparsity, kernel if usable else "dense"))
    return Choice(len(example), torch.get_num_threads(), str(example.device), tuple(layers))


@torch.no_grad()
def measured(model: nn.Module, example: Tensor) -> Choice:
    """The fastest of: every layer by the kernel that is faster alone, all sparse, all dense.

    Each is tried with dense convolutions as they are, and with their channels last.
    """
    graph = traced(model, example)
    inputs = _inputs(graph, example)
    found = pieces(graph)
    layers = [_timed(piece, inputs[piece.name]) for piece in found]
    kernels = {each.name: each.kernel for each in layers}
    all_sparse = {each.name: _tried(each, piece) for each, piece in zip(layers, found, strict=True)}
    candidates = {"dense": dict.fromkeys(kernels, "dense"), "each": kernels, "all": all_sparse}
    plans = {name: planned(model, graph, chosen) for name, chosen in candidates.items()}
    if example.device.type == "cpu" and any(isinstance(piece.module, nn.Conv2d) for piece in found):
        for name in [name for name, chosen in candidates.items() if "dense" in chosen.values()]:
            candidates[f"{name}, last"] = candidates[name]
            plans[f"{name}, last"] = planned(model, graph, candidates[name], channels_last=True)
    times = interleaved({name: partial(plan, example) for name, plan in plans.items()}, seconds=1.0)
    best = min(times, key=lambda name: times[name])
    best = best if times[best] < 0.99 * times["dense"] else "dense"
    chosen = tuple(
        LayerChoice(each.name, each.sparsity, candidates[best][each.name], each.dense_ms, each.sparse_ms)
        for each in layers
    )
    note = explain_missing() if KERNELS is None and example.device.type == "cpu" else ""
    context = (len(example), torch.get_num_threads(), str(example.device))
    return Choice(*context, chosen, 1e3 * times["dense"], 1e3 * times[best], note, best.endswith("last"))


def _tried(layer: LayerChoice, piece: Piece) -> str:
    return "dense" if layer.sparse_ms is None else kernels_for(piece)[0]


def _timed(piece: Piece, x: Tensor) -> LayerChoice:
    kernels = kernels_for(piece)
    if not kernels or piece.sparsity < WORTH_TRYING:
        return LayerChoice(piece.name, piece.sparsity, "dense")
    part = sparse_part([piece], kernels[0])
    times = interleaved({"dense": lambda: piece.dense(x), "sparse": lambda: part(x)}, seconds=0.2)
    kernel = kernels[0] if times["sparse"] < times["dense"] else "dense"
    return LayerChoice(piece.name, piece.sparsity, kernel, 1e3 * times["dense"], 1e3 * times["sparse"])


def _inputs(graph: fx.GraphModule, example: Tensor) -> dict[str, Tensor]:
    """What goes into every layer when the example goes through."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, given: tuple[Tensor, ...]) -> None:
            found[name] = given[0].detach()

        return hook

    hooks = [piece.module.register_forward_pre_hook(keep(piece.name)) for piece in pieces(graph)]
    try:
        graph(example)
    finally:
        for hook in hooks:
            hook.remove()
    return found
