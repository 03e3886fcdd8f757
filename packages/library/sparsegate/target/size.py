"""The size of the .sg file that a gated model would have with other masks."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sparsegate.files import compress, encode_sg
from sparsegate.gates import require_gates, unwrapped
from sparsegate.sharded import whole

GATED = re.compile(r"(?:^|(?<=\.))parametrizations\.(\w+)\.original$")
GATE = re.compile(r"(?:^|(?<=\.))parametrizations\.\w+\.\d+\.gate$")


@torch.no_grad()
def file_bytes(model: nn.Module, masks: Mapping[str, Tensor]) -> int:
    """Bytes of the finished model's .sg file, if these were the masks of its gated weights, by name."""
    packed = compress(masked_state(model, masks))
    return len(encode_sg(packed.entries, packed.same)[0])


def masked_state(model: nn.Module, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict that finishing the model with these masks would give, the model left as it is."""
    assert set(require_gates(model)) == set(masks)
    inner = unwrapped(model)
    owner = {path: id(weight) for path, weight in inner.named_parameters(remove_duplicate=False)}
    state: dict[str, Tensor] = {}
    masked: dict[int, Tensor] = {}
    for path, value in inner.state_dict().items():
        name = GATED.sub(r"\1", path)
        if name in masks:  # a tied weight has one gate, under its first name
            masked[owner[path]] = whole(value).masked_fill(~whole(masks[name]), 0.0).cpu()
        if not GATE.search(path):
            state[name] = whole(value).cpu() if name == path else masked[owner[path]]
    return state
