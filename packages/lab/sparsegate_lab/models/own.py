"""Finds the class of a model: a registered one, or one of the user's own code."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from sparsegate.named_object import is_object_name, named_object


def model_class(models: Mapping[str, type[nn.Module]], name: str) -> type[nn.Module]:
    """The class of a registered model, or the one that `module:Class` names.

    Raises:
        ValueError: If there is no such model, or the class lacks what training needs.
    """
    if not is_object_name(name):
        return models[name]
    found = named_object(name)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ValueError(f"expected a class of torch.nn.Module at {name}, got {found!r}")
    shape = getattr(found, "image_shape", None)
    if not (isinstance(shape, tuple) and len(shape) == 3 and all(type(n) is int for n in shape)):
        raise ValueError(
            f"{name} needs the shape of the images that it takes, such as image_shape = "
            f"(3, 32, 32) in the class, got {shape!r}"
        )
    return found


def build_model(models: Mapping[str, type[nn.Module]], name: str, num_classes: int) -> nn.Module:
    """A new model for this many classes."""
    kind = model_class(models, name)
    try:
        return kind(num_classes=num_classes)
    except TypeError as error:
        raise ValueError(
            f"{name} cannot be made with num_classes={num_classes}: {error}"
        ) from error
