"""Lists the dead units of a network and the size of its file in several forms."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from sparsegate.files import Packed, compress, encode_sg, quantise_
from sparsegate.graph import Removed, remove_dead_paths

from .source import Source

BITS = 5
MAX_ELEMENTS = 2**24  # packing more takes minutes, too long for a size in a table
STATISTICS = ("running_mean", "running_var")  # of BatchNorm: not weights


def savings(source: Source, path: Path) -> list[str]:
    """Lines about dead units, then the size of the file now, in other forms and without them."""
    now = [f"on disk now: {path.stat().st_size:,} bytes"] if path.is_file() else []
    state = source.packed.state_dict()
    if source.model is None:
        skipped = (
            f"dead paths: not searched, because {source.why_no_model}; "
            "in Python, sparsegate.remove_dead_paths takes any model"
        )
        return [skipped, "", *now, *_sizes({"unchanged": state})]
    clean = copy.deepcopy(source.model)
    removed = remove_dead_paths(clean, torch.zeros(1, *source.input_shape))
    states = {"unchanged": state, "without dead paths": clean.state_dict()}
    return [*_dead(clean, removed), "", *now, *_sizes(states)]


def quantised(
    state: dict[str, Tensor], bits: int, *, per: Literal["layer", "network"] = "network"
) -> dict[str, Tensor]:
    """A copy whose weights share few values; the statistics of norms are unchanged."""
    copies = {name: tensor.clone() for name, tensor in state.items()}
    weights = [tensor for name, tensor in copies.items() if not name.endswith(STATISTICS)]
    quantise_(weights, bits=bits, per=per)
    return copies


def _dead(clean: nn.Module, removed: Removed) -> list[str]:
    """A line for each layer with dead units, after their sum."""
    lines = []
    for name, weight in clean.named_parameters():
        layer = name.rpartition(".")[0]
        if weight.ndim < 2 or layer in removed.left:
            continue
        units = int((weight == 0).flatten(1).all(1).sum())
        weights, biases = removed.weights[name], removed.biases.get(f"{layer}.bias", 0)
        if units or weights:
            lines.append(
                f"  {layer}: {units} of {len(weight)} units; "
                f"{weights:,} weights and {biases:,} biases to remove"
            )
    if not lines:
        return ["dead paths: none"]
    total = f"{removed.num_weights:,} weights and {removed.num_biases:,} biases"
    return [f"dead paths: {total} cannot affect the output", *lines]


def _sizes(states: dict[str, dict[str, Tensor]]) -> list[str]:
    width = max(map(len, states))
    return [f"{name:{width}}  {_forms(state)}" for name, state in states.items()]


def _forms(state: dict[str, Tensor]) -> str:
    packed = compress(state)
    dense = sum(entry.num_bytes for entry in packed.entries.values())
    text = f"{dense:,} dense, {packed.cost.total // 8:,} as .sparse.safetensors"
    if sum(entry.total for entry in packed.entries.values()) > MAX_ELEMENTS:
        return text
    exact, coarse = _sg_size(packed), _sg_size(compress(quantised(state, BITS)))
    return f"{text}, {exact:,} as .sg, {coarse:,} as .sg at {BITS} bits"


def _sg_size(packed: Packed) -> int:
    return len(encode_sg(packed.entries, packed.same)[0])
