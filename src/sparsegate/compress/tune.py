"""Trains the few values of a quantised network, with its mask and its clusters fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize


class Shared(nn.Module):
    """Gives a weight the values of a book, each in the places of its cluster; place 0 is zero."""

    def __init__(self, book: nn.Parameter, places: Tensor) -> None:
        super().__init__()
        self.book = book
        self.places: Tensor
        self.register_buffer("places", places)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight as the book has it now."""
        whole = torch.cat([self.book.new_zeros(1), self.book])
        return whole[self.places].to(weight.dtype)


@contextmanager
def shared_values(model: nn.Module) -> Iterator[list[nn.Parameter]]:
    """Inside, the model's parameters are tied to books of values, which are what to train; afterwards it is ordinary.

    Tensors that have the same values share a book, as `quantise_` made them. The values stay representable in bfloat16.
    """
    books: dict[tuple[float, ...], nn.Parameter] = {}
    sites = [
        (module, name)
        for module in model.modules()
        for name, each in module.named_parameters(recurse=False)
        if each.numel()
    ]
    groups = _groups([module.get_parameter(name).detach() for module, name in sites])
    for (module, name), values in zip(sites, groups, strict=True):
        weight = module.get_parameter(name).detach()
        book = books.setdefault(tuple(values.tolist()), nn.Parameter(values.clone()))
        places = torch.where(weight == 0, 0, 1 + torch.searchsorted(values, weight.contiguous()))
        parametrize.register_parametrization(module, name, Shared(book, places), unsafe=True)
    try:
        yield list(books.values())
    finally:
        _settle_(books.values())
        for module, name in sites:
            parametrize.remove_parametrizations(module, name, leave_parametrized=True)


def tune_(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    *,
    lr: float = 1e-3,
    loss: Callable[[Any, Tensor], Tensor] = nn.functional.cross_entropy,
) -> None:
    """Trains the values of a quantised model on batches of inputs and labels, in place; the mask and clusters stay."""
    was_training = model.training
    model.train()
    with shared_values(model) as books:
        optimizer = torch.optim.Adam(books, lr=lr)
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    model.train(was_training)


def _groups(weights: list[Tensor]) -> list[Tensor]:
    """The values of every tensor's book: those of all tensors of its kind if they are few, else its own."""
    found: list[Tensor] = []
    for weight in weights:
        kind = [each for each in weights if (each.ndim < 2) == (weight.ndim < 2)]
        together = torch.unique(torch.cat([each.flatten() for each in kind]))
        values = together if len(together) <= 257 else torch.unique(weight)
        if len(values) > 257:
            raise ValueError(f"a tensor has {len(values)} different values; quantise the model first")
        found.append(values[values != 0])
    return found


@torch.no_grad()
def _settle_(books: Iterable[nn.Parameter]) -> None:
    for book in books:
        rounded = book.to(torch.bfloat16).to(book.dtype)
        book.copy_(torch.where(rounded == 0, torch.finfo(torch.bfloat16).tiny, rounded))  # a kept weight stays kept
