"""Wraps layers in other modules for training, and unwraps them at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

AnyModule = TypeVar("AnyModule", bound=nn.Module)
Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def layers_of(model: nn.Module) -> dict[str, Layer]:
    """The Linear and Conv layers of a model by name, shared ones once; raises if there is none."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, LAYERS)}
    if not found:
        names = ", ".join(kind.__name__ for kind in LAYERS)
        raise ValueError(
            f"the model has no layer of the types {names}, so there is nothing to make smaller"
        )
    return found


def wrap_(model: AnyModule, wrappers: dict[str, nn.Module]) -> AnyModule:
    """Replaces the layers with these names by their wrappers, in place.

    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> wrap_(model, {"0": nn.Sequential(model[0])})
    Sequential(
      (0): Sequential(
        (0): Linear(in_features=2, out_features=2, bias=True)
      )
    )
    """
    if "" in wrappers:
        raise ValueError(
            f"the model is itself a layer ({type(model).__name__}); put it into an nn.Sequential"
        )
    by_layer = {id(model.get_submodule(name)): wrapper for name, wrapper in wrappers.items()}
    for parent, name, child in _children(model):
        if id(child) in by_layer:
            parent._modules[name] = by_layer[id(child)]
    return model


def unwrap_(
    model: AnyModule, kind: type[nn.Module], inside: Callable[[nn.Module], nn.Module]
) -> AnyModule:
    """Replaces every wrapper of a kind by what it wraps, in place."""
    for parent, name, child in _children(model):
        if isinstance(child, kind):
            parent._modules[name] = inside(child)
    return model


def apply_layer(
    layer: Layer, features: Float[Tensor, "..."], weight: Tensor, bias: Tensor | None
) -> Float[Tensor, "..."]:
    """The layer's output with another weight and bias."""
    if isinstance(layer, nn.Linear):
        return F.linear(features, weight, bias)
    out: Tensor = layer._conv_forward(features, weight, bias)
    return out


def _children(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """All modules with parent and name; a shared module comes once for each parent."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is not None:
                yield parent, name, child
