"""Freezes the mask of a sparse model, so that further training changes no zero."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from .gate import Gate
from .install import AnyModule, gate, gates, unwrapped
from .select import Select
from .start import Nonzero


def freeze_mask(model: AnyModule, *, select: Select | None = None) -> AnyModule:
    """Keeps the zeros of a sparse model at zero in further training, in place; returns the model.

    >>> import torch
    >>> layer = nn.Linear(3, 1, bias=False)
    >>> _ = nn.init.constant_(layer.weight, 2.0)
    >>> layer.weight.data[0, 1] = 0
    >>> layer = freeze_mask(layer)
    >>> optimizer = torch.optim.AdamW(layer.parameters(), lr=0.5)
    >>> layer(torch.ones(1, 3)).sum().backward()
    >>> optimizer.step()
    >>> layer.weight != 0
    tensor([[ True, False,  True]])

    Every weight with zeros gets gates that are open where it is not zero, and never move. Train
    with any optimizer, then call `sparsegate.finish` for an ordinary model. A gated model keeps its
    gates, which are frozen where they are.

    Args:
        model: A model with zeros, such as a finished one, or a gated one. Freeze it before wrapping
            it in DistributedDataParallel.
        select: Which weights to consider; every weight unless given. Not for a gated model.

    Returns:
        The model.

    Raises:
        ValueError: If no weight has a zero, or select is given for a gated model.
    """
    present = gates(model)
    if present and select is not None:
        raise ValueError("the model has gates already, all of which are frozen; leave select out")
    if not present:
        _gate_zeros(model, select or Select())
    for each in gates(model).values():
        _freeze_(each)
    return model


def _gate_zeros(model: nn.Module, select: Select) -> None:
    """Gates the weights that have zeros, and others."""
    sparse = [site.name for site in select.sites(unwrapped(model)) if _has_zeros(site.parameter)]
    if not sparse:
        raise ValueError(
            "no weight of the model has a zero; freeze a sparse model, such as one that "
            "sparsegate.finish has returned"
        )
    gate(model, start=Nonzero(1.0), select=replace(select, names=tuple(map(_literal, sparse))))


def _has_zeros(weight: nn.Parameter) -> bool:
    zeros = (weight.detach() == 0).sum()
    return bool((zeros > 0) & (zeros < weight.numel()))


def _literal(name: str) -> str:
    """A pattern that matches this name only."""
    return name.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")


def _freeze_(gate: Gate) -> None:
    if gate.whole:
        raise ValueError(
            "GatedSGD has taken over these gates; finish the model first: sparsegate.finish(model)"
        )
    gate.gate.requires_grad_(False)
