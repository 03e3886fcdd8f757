"""Splits a model over several processes with torch's fully_shard (FSDP2)."""

from __future__ import annotations

import copy
import os
from typing import Any

import torch
from accelerate import Accelerator, DistributedType
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.utils.parametrize import ParametrizationList

from sparsegate.sharded import is_sharded, shared_like, whole
from sparsegate_lab.method import Method

OTHERS = (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)


def is_sharding(accelerator: Accelerator, method: Method, asked: bool) -> bool:
    """Whether to split the model: if asked to, or if accelerate is configured for FSDP."""
    if accelerator.distributed_type in OTHERS:
        raise ValueError(
            f"training by command runs under DDP or FSDP2, got {accelerator.distributed_type}"
        )
    # From the environment, because on CPUs the accelerator does not say.
    configured = os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"
    if configured and os.environ.get("FSDP_VERSION", "1") != "2":
        raise ValueError(
            "training by command shards by FSDP2; pass --fsdp_version 2 to accelerate launch"
        )
    if not (asked or configured):
        return False
    if not method.shards:
        raise ValueError(
            f"{type(method).__name__} needs whole weights and cannot train sharded; "
            "leave --shard out"
        )
    if accelerator.num_processes == 1:
        raise ValueError(
            "--shard needs several processes, got one; start several, or leave --shard out"
        )
    return True


class Shards:
    """A model of which every process holds a part."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        # Keeps what a state dict does not hold, such as plain attributes of modules.
        self._template = copy.deepcopy(model)
        self.model = model.to(device, memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # FSDP's wish
        mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
        for layer in _layers(self.model):
            fully_shard(layer, mesh=mesh)
        fully_shard(self.model, mesh=mesh)

    def ordinary(self) -> nn.Module:
        """A complete copy on the CPU; all processes must call this."""
        self._template.load_state_dict(
            {name: whole(each).cpu() for name, each in self.model.state_dict().items()}
        )
        return copy.deepcopy(self._template)


def like(param: Tensor, tensor: Tensor) -> Tensor:
    """A tensor with the memory format and the shards of a parameter; last bits depend on both."""
    if tensor.shape != param.shape:
        return tensor
    if is_sharded(param):
        return shared_like(param, tensor.to(param.device))
    return torch.empty_like(param, dtype=tensor.dtype).copy_(tensor)


def _layers(model: nn.Module) -> list[nn.Module]:
    """The modules with parameters, gated or not, which FSDP gathers one at a time."""
    inside: set[nn.Module] = set()
    found: list[nn.Module] = []
    for module in model.modules():
        if module in inside or isinstance(module, ParametrizationList):
            continue
        gated: Any = getattr(module, "parametrizations", None)
        if gated is not None or next(module.parameters(recurse=False), None) is not None:
            found.append(module)
            inside.update(module.modules())
    return [each for each in found if each is not model]
