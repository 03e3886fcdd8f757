"""What a model is timed on: inputs of any structure, as the tensors that engines take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree


class Given:
    """One batch of a model's inputs: a tensor, a tuple of arguments or a dict of keyword arguments.

    >>> Given({"x": torch.zeros(2, 3)}).of_size(5).tensors[0].shape
    torch.Size([5, 3])
    """

    def __init__(self, example: Any) -> None:
        self.example = example
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        if isinstance(example, Mapping):
            self.kwargs = dict(example)
        else:
            self.args = tuple(example) if isinstance(example, tuple | list) else (example,)
        self.leaves, self.structure = _pytree.tree_flatten((self.args, self.kwargs))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors, in order."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, Tensor))

    @property
    def batch(self) -> int:
        """The first dimension of the first tensor."""
        return len(self.tensors[0])

    def of_size(self, batch: int) -> Given:
        """Another number of inputs; where there are too few, they are repeated."""
        old = self.batch
        rows = torch.arange(batch) % old
        return Given(
            _pytree.tree_map_only(
                Tensor, lambda one: one[rows] if one.ndim and len(one) == old else one, self.example
            )
        )

    def call(self, model: nn.Module) -> Callable[..., Tensor]:
        """A function from the tensors to the first tensor that the model gives."""
        if isinstance(self.example, Tensor):
            return lambda x: first_tensor(model(x))

        def forward(*tensors: Tensor) -> Tensor:
            rest = iter(tensors)
            leaves = [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
            args, kwargs = _pytree.tree_unflatten(leaves, self.structure)
            return first_tensor(model(*args, **kwargs))

        return forward


class Flat(nn.Module):
    """A model that takes tensors only and gives its first one, for engines that want no more."""

    def __init__(self, model: nn.Module, given: Given) -> None:
        super().__init__()
        self.model = model
        self._call = given.call(model)
        self.training = model.training  # exporters put all modules into the mode of this one

    def forward(self, *tensors: Tensor) -> Tensor:
        """The model's first output."""
        return self._call(*tensors)


def first_tensor(output: Any) -> Tensor:
    """The first tensor of what a model gives.

    >>> first_tensor({"sum": torch.ones(1), "parts": []})
    tensor([1.])
    """
    if isinstance(output, Tensor):
        return output
    parts = output.values() if isinstance(output, Mapping) else output
    return first_tensor(next(iter(parts)))
