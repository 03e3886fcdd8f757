"""What a network's file would take in other forms, and without its dead paths."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from sparsegate.files import Packed, compress, encode_sg, quantise_
from sparsegate.graph import Removed, remove_dead_paths
from sparsegate_lab.models import MODELS

BITS = 5
MAX_ELEMENTS = 2**24  # more would be packed for minutes, only to say how large they are
STATISTICS = ("running_mean", "running_var")  # of BatchNorm: not weights
UNKNOWN = (
    f"dead paths: not looked for, because the tensors are not those of a registered model ({', '.join(MODELS)}); "
    "for others there is sparsegate.remove_dead_paths"
)


def savings(packed: Packed, path: Path, model: nn.Module | None) -> list[str]:
    """Lines that say what is dead, and what the file takes now, otherwise, and without it."""
    now = [f"on disk now: {path.stat().st_size:,} bytes"] if path.is_file() else []
    state = packed.state_dict()
    if model is None:
        return [UNKNOWN, "", *now, *_sizes({"as it is": state})]
    clean = copy.deepcopy(model)
    removed = remove_dead_paths(clean, torch.zeros(1, *clean.image_shape))  # type: ignore[misc, arg-type]
    return [
        *_dead(clean, removed),
        "",
        *now,
        *_sizes({"as it is": state, "without dead paths": clean.state_dict()}),
    ]


def quantised(
    state: dict[str, Tensor], bits: int, *, per: Literal["layer", "network"] = "network"
) -> dict[str, Tensor]:
    """A copy with few different values; statistics of norms stay."""
    few = {name: tensor.clone() for name, tensor in state.items()}
    quantise_(
        [each for name, each in few.items() if not name.endswith(STATISTICS)], bits=bits, per=per
    )
    return few


def _dead(clean: nn.Module, removed: Removed) -> list[str]:
    """A line for every layer with dead units, or one that says that there are none."""
    lines = []
    for name, weight in clean.named_parameters():
        layer = name.rpartition(".")[0]
        if weight.ndim < 2 or layer in removed.left:
            continue
        units = int((weight == 0).flatten(1).all(1).sum())
        weights, biases = removed.weights[name], removed.biases.get(f"{layer}.bias", 0)
        if units or weights:
            lines.append(
                f"  {layer}: {units} of {len(weight)} units; {weights:,} weights and {biases:,} biases to remove"
            )
    sums = f"{removed.num_weights:,} weights and {removed.num_biases:,} biases"
    return (
        [f"dead paths: {sums} that no output can feel", *lines] if lines else ["dead paths: none"]
    )


def _sizes(states: dict[str, dict[str, Tensor]]) -> list[str]:
    width = max(map(len, states))
    return [f"{name:{width}}  {_forms(state)}" for name, state in states.items()]


def _forms(state: dict[str, Tensor]) -> str:
    packed = compress(state)
    dense = sum(entry.num_bytes for entry in packed.entries.values())
    words = f"{dense:,} dense, {packed.cost.total // 8:,} as .sparse.safetensors"
    if sum(entry.total for entry in packed.entries.values()) > MAX_ELEMENTS:
        return words
    few = compress(quantised(state, BITS))
    tight, tighter = (len(encode_sg(each.entries, each.same)[0]) for each in (packed, few))
    return f"{words}, {tight:,} as .sg, {tighter:,} as .sg at {BITS} bits"
