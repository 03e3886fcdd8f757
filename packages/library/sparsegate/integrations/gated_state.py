"""Turns the state dict of a gated model into that of the model as it would be finished."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from sparsegate.gates import OPEN_ABOVE

GATE = re.compile(r"^(?P<owner>(?:.*\.)?)parametrizations\.(?P<tensor>\w+)\.0\.gate$")


def finished_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the ordinary state dict that a gated one stands for.

    >>> from torch import nn
    >>> from sparsegate.gates import gate
    >>> list(finished_state(gate(nn.Linear(2, 1)).state_dict()))
    ['bias', 'weight']

    Args:
        state: A state dict with the names of gated weights; without gates, it stays unchanged.

    Returns:
        Every tensor under its name before gating; weights whose gates are closed are zero.
    """
    gates = {name: match for name in state if (match := GATE.match(name))}
    originals = {name.removesuffix("0.gate") + "original": name for name in gates}
    finished = {
        name: value for name, value in state.items() if name not in gates and name not in originals
    }
    for name, gate in originals.items():
        match, value = gates[gate], state[name]
        open_ = state[gate] > OPEN_ABOVE
        finished[match["owner"] + match["tensor"]] = torch.where(open_, value, 0.0)
    return finished
