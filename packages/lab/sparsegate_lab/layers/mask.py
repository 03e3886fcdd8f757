"""Binary masks of a model's weights, as buffers of their modules."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)
MASKED_TYPES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
BUFFER = "weight_mask"


class Masked(NamedTuple):
    """One weight with its mask."""

    module: nn.Module
    weight: Float[Tensor, "*shape"]
    mask: Bool[Tensor, "*shape"]


def add_masks(model: AnyModule) -> AnyModule:
    """Adds a mask, all true, to the weight of every Linear and Conv layer, in place.

    >>> model = add_masks(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    >>> list(masks(model))
    ['0.weight', '2.weight']

    Call `apply_masks_` after every step, so that removed weights stay exactly zero.
    """
    seen: set[int] = set()
    for module in model.modules():
        if isinstance(module, MASKED_TYPES) and id(module.weight) not in seen:
            seen.add(id(module.weight))
            module.register_buffer(BUFFER, torch.ones_like(module.weight, dtype=torch.bool))
    if not seen:
        names = ", ".join(kind.__name__ for kind in MASKED_TYPES)
        raise ValueError(
            f"the model has no layer of the types {names}, so there is nothing to prune"
        )
    return model


def masks(model: nn.Module) -> dict[str, Masked]:
    """The masked weights by name, tied ones once."""
    return {
        f"{path}.weight" if path else "weight": Masked(
            module, module.weight, module._buffers[BUFFER]
        )  # type: ignore[arg-type]
        for path, module in model.named_modules()
        if BUFFER in module._buffers
    }


@torch.no_grad()
def apply_masks_(model: nn.Module) -> None:
    """Sets every removed weight to zero, in place."""
    for _, weight, mask in masks(model).values():
        # Not a product: a removed weight becomes +0.0, never -0.0, whatever it was.
        weight.masked_fill_(~mask, 0.0)


def num_to_keep(model: nn.Module, keep: float) -> int | None:
    """The number of weights after a cut to this fraction; None if no more are left already."""
    found = [mask for _, _, mask in masks(model).values()]
    count = max(1, round(keep * sum(mask.numel() for mask in found)))
    return count if sum(int(mask.sum()) for mask in found) > count else None


@torch.no_grad()
def cut_to_(model: nn.Module, keep: float, scores: Mapping[str, Tensor]) -> bool:
    """Keeps the weights with the highest scores, ranked over the whole network, in place.

    Ties go to the earlier weight. A removed weight never comes back.

    Args:
        model: a model with masks.
        keep: the fraction of all masked weights that remains.
        scores: the scores of each weight's elements, by name.

    Returns:
        False if no more weights are left already, and nothing changed.
    """
    count = num_to_keep(model, keep)
    if count is None:
        return False
    found = masks(model)
    live = torch.cat([mask.flatten() for _, _, mask in found.values()])
    flat = torch.cat([scores[name].flatten() for name in found]).masked_fill(~live, -torch.inf)
    kept = torch.zeros_like(live)
    kept[flat.argsort(descending=True, stable=True)[:count]] = True
    parts = torch.split(kept, [each.mask.numel() for each in found.values()])
    for masked, part in zip(found.values(), parts, strict=True):
        masked.mask.copy_(part.view(masked.mask.shape))
    apply_masks_(model)
    if emptied := [name for name, each in found.items() if not bool(each.mask.any())]:
        warnings.warn(f"every weight of {', '.join(emptied)} has been cut; keep more", stacklevel=2)
    return True


def remove_masks(model: AnyModule) -> AnyModule:
    """Removes the masks, in place; the result is an ordinary model with exact zeros."""
    apply_masks_(model)
    for module, _, _ in masks(model).values():
        del module._buffers[BUFFER]
    return model
