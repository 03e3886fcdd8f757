"""Loads pretrained weights into a model by name, and checks them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from torch import Tensor, nn

SHOWN = 6  # most names in a message; with the wrong model, hundreds do not match


def load_weights_(
    model: nn.Module, tensors: Mapping[str, Tensor], *, new_head: tuple[str, ...] = ()
) -> None:
    """Loads tensors into a model, in place.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 10))
    >>> load_weights_(model, nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1000)).state_dict())
    Traceback (most recent call last):
    ...
    ValueError: the weights are not those of this model: wrong shapes: 1.weight is (1000, 2)...

    Args:
        model: the model that gets the weights.
        tensors: the weights, by the names of the model's state dict.
        new_head: patterns of layers that keep their weights, such as `classifier.6` or
            `classifier.*`.

    Raises:
        ValueError: a name is missing or unexpected, a shape differs, a weight is not finite, or
            a pattern matches no tensor.
    """
    own = model.state_dict()
    _check_patterns(new_head, list(own))
    wanted = {name: tensor for name, tensor in own.items() if not _names(new_head, name)}
    given = {name: tensor for name, tensor in tensors.items() if not _names(new_head, name)}
    if complaint := _complaint(wanted, given):
        raise ValueError(f"the weights are not those of this model: {complaint}")
    if strange := [
        name
        for name, tensor in given.items()
        if tensor.is_floating_point() and not tensor.isfinite().all()
    ]:
        raise ValueError(
            f"expected finite weights, got NaN or infinity in {_listed(strange)}; "
            "get the file again"
        )
    model.load_state_dict(given, strict=False)


def _complaint(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str:
    """Lists missing, unexpected and wrongly shaped tensors; empty if all match."""
    # Older files lack BatchNorm's counter of batches, which changes no result.
    missing = [
        name for name in wanted if name not in given and not name.endswith("num_batches_tracked")
    ]
    unexpected = [name for name in given if name not in wanted]
    wrong = {
        name: tensor
        for name, tensor in given.items()
        if name in wanted and tensor.shape != wanted[name].shape
    }
    shapes = [
        f"{name} is {tuple(tensor.shape)}, wanted {tuple(wanted[name].shape)}"
        for name, tensor in wrong.items()
    ]
    parts = {"missing": missing, "unexpected": unexpected, "wrong shapes": shapes}
    words = "; ".join(f"{kind}: {_listed(names)}" for kind, names in parts.items() if names)
    return words + _hint([*missing, *wrong], unexpected)


def _hint(unfit: list[str], unexpected: list[str]) -> str:
    """Suggests --new-head if it would solve the problem for at most three layers."""
    layers = tuple(dict.fromkeys(name.rpartition(".")[0] or name for name in unfit))
    if not 0 < len(layers) <= 3 or not all(_names(layers, name) for name in unexpected):
        return ""
    return f"; --new-head {' '.join(layers)} keeps the initial weights of these layers"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _names(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, pattern) or name.startswith(f"{pattern}.") for pattern in patterns)


def _check_patterns(patterns: tuple[str, ...], names: list[str]) -> None:
    for pattern in patterns:
        if not any(_names((pattern,), name) for name in names):
            layers = dict.fromkeys(name.rpartition(".")[0] for name in names)
            raise ValueError(
                f"no tensor of the model matches new_head {pattern!r}; "
                f"its layers are {', '.join(layers)}"
            )
