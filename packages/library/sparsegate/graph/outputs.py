"""Runs a model and collects the tensors that it gives, whatever they are packed in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from .capture import Example, arguments_of, evaluating


def outputs(model: nn.Module, example: Example) -> list[Tensor]:
    """The outputs of a model in eval for the example, always with the same random numbers."""
    args, kwargs = arguments_of(example)
    with torch.random.fork_rng(devices=()), evaluating(model):
        return tensors_in(model(*args, **kwargs))


def tensors_in(value: object) -> list[Tensor]:
    """The tensors in containers and in attributes of objects, such as caches.

    >>> tensors_in({"y": torch.ones(1), "more": [torch.zeros(1), "word"]})
    [tensor([1.]), tensor([0.])]
    """
    return list(_found(value, set()))


def _found(value: object, seen: set[int]) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
        return
    if id(value) in seen or isinstance(value, nn.Module | type):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, tuple | list):
        inside = list(value)
    else:
        attributes = getattr(value, "__dict__", {})
        inside = [attributes[name] for name in sorted(attributes)]
    for one in inside:
        yield from _found(one, seen)
