"""Trains the few values of a quantised network, with its mask fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from sparsegate.schedule import cosine

MAX_VALUES = 256


class Shared(nn.Module):
    """Gives the kept places of a weight the values of a book, each by its cluster; all others are zero."""

    def __init__(self, book: nn.Parameter, weight: Tensor, *, origin: Tensor | None = None) -> None:
        super().__init__()
        flat = weight.detach().flatten()
        positions = flat.nonzero().flatten()
        kept = flat[positions]
        self.book = book
        self.positions: Tensor
        self.clusters: Tensor
        self.register_buffer("positions", positions)
        self.register_buffer("clusters", torch.searchsorted(book.detach(), kept))
        self.place = None if origin is None else nn.Parameter(origin.detach().flatten()[positions])
        """Where each kept weight itself is, if it moves: it takes the nearest value of the book."""

    def forward(self, weight: Tensor) -> Tensor:
        """The weight as the book has it now."""
        values = self._values()
        # Kept places only: the gradient of indexing the book with all places would be summed over the removed ones too.
        flat = values.new_zeros(weight.numel()).index_copy(0, self.positions, values)
        return flat.view(weight.shape).to(weight.dtype)

    def _values(self) -> Tensor:
        if self.place is None:
            return self.book.index_select(0, self.clusters)
        self.clusters = nearest(self.book.detach(), self.place.detach())
        # Straight through: the gradient of a value is also that of the weight that takes it.
        return self.book.index_select(0, self.clusters) + (self.place - self.place.detach())


def nearest(book: Tensor, numbers: Tensor) -> Tensor:
    """The place in a book, in whatever order, of the value that is nearest to each number.

    >>> nearest(torch.tensor([3.0, -1.0]), torch.tensor([0.9, 1.1]))
    tensor([1, 0])
    """
    rising, order = book.sort()
    return order[torch.bucketize(numbers, (rising[1:] + rising[:-1]) / 2)]


@contextmanager
def shared_values(
    model: nn.Module,
    *,
    per: Literal["layer", "network"] = "network",
    origin: nn.Module | None = None,
) -> Iterator[list[nn.Parameter]]:
    """Inside, the model's parameters are tied to books of values, which are what to train; afterwards it is ordinary.

    Whether layers share a book is said as for `quantise_`; vectors always do. The values stay representable in
    bfloat16. With an origin, a model that has not been quantised, weights move: they set out from there, and their
    places are parameters of the model too.
    """
    books: dict[int, nn.Parameter] = {}
    sites = [
        (module, name)
        for module in model.modules()
        for name, each in module.named_parameters(recurse=False)
        if each.numel()
    ]
    origins = _origins(model, origin)
    weights = [module.get_parameter(name).detach() for module, name in sites]
    groups = [
        -1 if weight.ndim < 2 else place if per == "layer" else 0
        for place, weight in enumerate(weights)
    ]
    for group in dict.fromkeys(groups):
        books[group] = _book(
            [weight for weight, each in zip(weights, groups, strict=True) if each == group]
        )
    for (module, name), weight, group in zip(sites, weights, groups, strict=True):
        shared = Shared(books[group], weight, origin=origins.get(id(module.get_parameter(name))))
        parametrize.register_parametrization(module, name, shared, unsafe=True)
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
    per: Literal["layer", "network"] = "network",
    origin: nn.Module | None = None,
    move: float = 1e-3,
    num_batches: int | None = None,
    loss: Callable[[Any, Tensor], Tensor] = nn.functional.cross_entropy,
) -> None:
    """Trains the values of a quantised model on batches of inputs and labels, in place; the mask stays.

    With an `origin`, the model before it was quantised, the weights train too, from there on and with the learning rate
    `move`: each takes the value that is nearest to it at the time, so clusters change. With `num_batches` both learning
    rates fall to zero along a cosine of that length.
    """
    was_training = model.training
    model.train()
    with shared_values(model, per=per, origin=origin) as books:
        places = [
            each.place
            for each in model.modules()
            if isinstance(each, Shared) and each.place is not None
        ]
        optimizer = torch.optim.Adam([{"params": books, "lr": lr}, {"params": places, "lr": move}])
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: cosine(step / num_batches) if num_batches else 1.0
        )
        for inputs, labels in batches:
            optimizer.zero_grad()
            with parametrize.cached():
                loss(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    model.train(was_training)


def _origins(model: nn.Module, origin: nn.Module | None) -> dict[int, Tensor]:
    """Where the weights of a model set out, by the weights' identity."""
    if origin is None:
        return {}
    own, other = dict(model.named_parameters()), dict(origin.named_parameters())
    if {name: each.shape for name, each in own.items()} != {
        name: each.shape for name, each in other.items()
    }:
        raise ValueError(
            "origin is the model before it was quantised, but its parameters have other names or shapes"
        )
    return {id(each): other[name].to(each.device) for name, each in own.items()}


def _book(weights: list[Tensor]) -> nn.Parameter:
    """The values of some tensors, rising, without zero."""
    values = torch.unique(torch.cat([weight.flatten() for weight in weights]))
    values = values[values != 0]
    if len(values) > MAX_VALUES:
        raise ValueError(
            f"a book would have {len(values)} values, more than {MAX_VALUES}; quantise the model first"
        )
    return nn.Parameter(values)


@torch.no_grad()
def _settle_(books: Iterable[nn.Parameter]) -> None:
    for book in books:
        rounded = book.to(torch.bfloat16).to(book.dtype)
        book.copy_(
            torch.where(rounded == 0, torch.finfo(torch.bfloat16).tiny, rounded)
        )  # a kept weight stays kept
