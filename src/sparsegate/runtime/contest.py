"""Times the layers of a model dense and sparse, and chooses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, fx, nn

from sparsegate.kernels import KERNELS, explain_missing

from .choice import Choice, LayerChoice
from .measure import interleaved
from .part import sparse_part
from .pieces import Piece, pieces, traced
from .plan import planned
from .triton_part import why_not

WORTH_TRYING = 0.3
"""No kernel gains from fewer zeros than this."""


def forced(model: nn.Module, example: Tensor, kernel: str) -> Choice:
    """The choice of one kernel wherever it can be used."""
    if kernel not in ("dense", "chain", "triton", "csr"):
        raise ValueError(f"kernel is dense, chain, triton or csr, got {kernel!r}")
    if kernel == "chain" and KERNELS is None:
        raise ValueError(explain_missing())
    found = pieces(traced(model, example))
    if kernel == "triton" and found and (reason := why_not(found[0].module.weight)):
        raise ValueError(reason)
    layers = []
    for piece in found:
        usable = kernel == "dense" or kernel in _kernels(piece)
        layers.append(LayerChoice(piece.name, piece.sparsity, kernel if usable else "dense"))
    return Choice(len(example), torch.get_num_threads(), str(example.device), tuple(layers))


@torch.no_grad()
def measured(model: nn.Module, example: Tensor) -> Choice:
    """The fastest of: every layer by the kernel that is faster alone, all sparse, all dense."""
    graph = traced(model, example)
    inputs = _inputs(graph, example)
    found = [_timed(piece, inputs[piece.name]) for piece in pieces(graph)]
    layers = [each for each, _ in found]
    kernels = {each.name: each.kernel for each in layers}
    all_sparse = {each.name: kernel for each, kernel in found}
    candidates = {"dense": dict.fromkeys(kernels, "dense"), "each": kernels, "all": all_sparse}
    plans = {name: planned(model, graph, chosen) for name, chosen in candidates.items()}
    times = interleaved({name: partial(plan, example) for name, plan in plans.items()}, seconds=1.0)
    best = min(times, key=lambda name: times[name])
    best = best if times[best] < 0.99 * times["dense"] else "dense"
    chosen = tuple(
        LayerChoice(each.name, each.sparsity, candidates[best][each.name], each.dense_ms, each.sparse_ms)
        for each in layers
    )
    context = (len(example), torch.get_num_threads(), str(example.device))
    return Choice(*context, chosen, 1e3 * times["dense"], 1e3 * times[best], _note(pieces(graph)))


def _kernels(piece: Piece) -> list[str]:
    """The sparse kernels that can run a piece where its weights are."""
    weight, is_linear = piece.module.weight, isinstance(piece.module, nn.Linear)
    if weight.device.type == "cpu" and KERNELS is not None:
        return ["chain"]
    csr = ["csr"] if is_linear and (weight.dtype == torch.float32 or weight.device.type == "cuda") else []
    return csr if why_not(weight) else ["triton", *csr]


def _note(found: list[Piece]) -> str:
    """What is missing for the fastest kernels."""
    weight = found[0].module.weight if found else torch.zeros(0)
    if weight.device.type == "cuda":
        return why_not(weight)
    return explain_missing() if KERNELS is None else ""


def _timed(piece: Piece, x: Tensor) -> tuple[LayerChoice, str]:
    """What was measured, and the fastest sparse kernel, even where dense is faster."""
    kernels = _kernels(piece)
    if not kernels or piece.sparsity < WORTH_TRYING:
        return LayerChoice(piece.name, piece.sparsity, "dense"), "dense"
    ways = {kernel: partial(sparse_part([piece], kernel), x) for kernel in kernels}
    times = interleaved({"dense": lambda: piece.dense(x), **ways}, seconds=0.2)
    sparse = min(kernels, key=lambda kernel: times[kernel])
    kernel = sparse if times[sparse] < times["dense"] else "dense"
    return LayerChoice(piece.name, piece.sparsity, kernel, 1e3 * times["dense"], 1e3 * times[sparse]), sparse


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
