"""Gives a copy of a model the engine's forward, if the engine can run it and is faster."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.graph import outputs

from .choice import Choice, LayerChoice
from .engine_forward import EngineForward, skeleton_of
from .measure import interleaved
from .modules import Swap, swapped
from .report import engine_table
from .trial import are_near

SECONDS = 0.5
"""Seconds for comparing two forms of a model."""


def by_engine(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    wanted: Sequence[Tensor],
    progress: Callable[[str], None] | None,
) -> tuple[nn.Module | None, str]:
    """A copy of the model whose forward is the engine's, or else why there is none.

    Args:
        model: the model.
        args: positional arguments of the example.
        kwargs: keyword arguments of the example.
        wanted: the model's outputs for the example.
        progress: called with a sentence about each step.
    """
    if not _suits_engine(model, args, kwargs):
        return None, "it needs finite float32 weights on the CPU"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made, report = swapped(model, args, kwargs, measure=False)
            forward = EngineForward(made, skeleton_of(model))
            chosen = forward.plan(args, dict(kwargs), progress)
            plan = chosen.plan
    except Exception as error:  # capture or the planner does not know the model
        return None, str(error).strip().partition("\n")[0] or type(error).__name__
    forward.plans[forward.key(args, kwargs)] = chosen
    made.__dict__["forward"] = forward
    with torch.no_grad():
        if not are_near(outputs(made, kwargs or args), wanted):
            return None, "its captured operations compute something else"
        if plan.left:
            other, _ = swapped(model, args, kwargs)
            if faster_of(made, other, args, kwargs) is other:
                return None, f"it has no {', '.join(sorted(set(plan.left)))}, and was slower"
    costs = chosen.costs(torch.utils._pytree.tree_leaves((args, kwargs)))
    text = engine_table(plan, report, costs)
    made.extra_repr = partial(str, text)  # type: ignore[method-assign]
    made.__dict__["sparsegate_choice"] = as_choice(report, "the engine runs the network")
    if not hasattr(made, "trace"):
        made.__dict__["trace"] = forward.trace
    return made, ""


def _suits_engine(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether the engine can compute with model and example: float32 on the CPU."""
    if isinstance(model, torch.jit.ScriptModule) or bool(args) == bool(kwargs):
        return False
    tensors = [*model.parameters(), *model.buffers()]
    return all(
        one.is_cpu and (one.dtype == torch.float32 or not one.is_floating_point())
        for one in tensors
    ) and is_finite(model)


def is_chain(made: nn.Module) -> bool:
    """Whether the layers follow each other without branches, as the kernels for chains need."""
    forward: EngineForward = made.__dict__["forward"]
    (chosen,) = forward.plans.values()
    assert chosen is not None
    return chosen.plan.is_chain


def faster_of(
    one: nn.Module, other: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> nn.Module:
    """The faster of two models; the first if they take equally long."""
    with torch.no_grad():
        ways = {"one": partial(one, *args, **kwargs), "other": partial(other, *args, **kwargs)}
        times = interleaved(ways, seconds=SECONDS)
    return one if times["one"] <= times["other"] else other


def is_finite(model: nn.Module) -> bool:
    """Whether all weights are finite: kernels that skip zeros do not multiply them with NaN."""
    tensors = [*model.parameters(), *model.buffers()]
    with torch.no_grad():
        return all(
            not one.is_meta and bool(one.isfinite().all())
            for one in tensors
            if one.is_floating_point()
        )


def as_choice(
    report: Sequence[Swap], note: str = "layers swapped in the model's own code"
) -> Choice:
    """The decisions about the layers as a choice, such as a chain of layers has."""
    layers = tuple(
        LayerChoice(swap.name, swap.sparsity, swap.kernel, swap.dense_ms, swap.sparse_ms)
        for swap in report
    )
    return Choice(0, torch.get_num_threads(), "cpu", layers, note=note)
