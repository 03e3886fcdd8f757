"""Fine-tunes the few values of a quantized network; the mask is frozen."""

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
    """A parametrization that takes every kept weight from a codebook of shared values."""

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
        self.moving = None if origin is None else nn.Parameter(origin.detach().flatten()[positions])
        """The kept weights, if they train too: each takes the nearest value of the book."""

    def forward(self, weight: Tensor) -> Tensor:
        """The weight with the current values of the book."""
        values = self._values()
        # Only kept positions index the book: otherwise removed weights would add to its gradient.
        flat = values.new_zeros(weight.numel()).index_copy(0, self.positions, values)
        return flat.view(weight.shape).to(weight.dtype)

    def _values(self) -> Tensor:
        if self.moving is None:
            return self.book.index_select(0, self.clusters)
        self.clusters = nearest(self.book.detach(), self.moving.detach())
        # Straight-through: the gradient of a value is also that of the weight that takes it.
        return self.book.index_select(0, self.clusters) + (self.moving - self.moving.detach())


def nearest(book: Tensor, numbers: Tensor) -> Tensor:
    """The index of the value of a book, in any order, that is nearest to each number.

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
    """Replaces the parameters of a quantized model by codebooks of shared values, inside the block.

        with shared_values(model) as books:
            optimizer = torch.optim.Adam(books)
            ...

    Args:
        model: A quantized model. After the block it has ordinary parameters again.
        per: Whether matrices share a book, as for `quantise_`. Vectors always share one.
        origin: The model before it was quantized. With it, weights train too: they start there, are
            parameters of the model, and take the nearest value of the book.

    After the block, values are rounded to bfloat16.

    """
    books: dict[int, nn.Parameter] = {}
    sites = [
        (module, name)
        for module in model.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if parameter.numel()
    ]
    origins = _origins(model, origin)
    weights = [module.get_parameter(name).detach() for module, name in sites]
    groups = [
        -1 if weight.ndim < 2 else index if per == "layer" else 0
        for index, weight in enumerate(weights)
    ]
    for group in dict.fromkeys(groups):
        books[group] = _book(
            [
                weight
                for weight, its_group in zip(weights, groups, strict=True)
                if its_group == group
            ]
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
    """Fine-tunes the values of a quantized model, in place; the mask is frozen.

        quantise_(model, bits=4)
        tune_(model, batches)

    Args:
        model: A quantized model.
        batches: Batches of inputs and labels.
        lr: Learning rate of the values.
        per: Whether matrices share their values, as for `quantise_`.
        origin: The model before it was quantized. With it, the weights train too: they start there,
            and each takes the nearest value at every step, so clusters change.
        move: Learning rate of the weights, with an origin.
        num_batches: Number of batches, if known: learning rates then fall to zero along a cosine.
        loss: The loss of outputs and labels.

    """
    was_training = model.training
    model.train()
    with shared_values(model, per=per, origin=origin) as books:
        moving = [
            module.moving
            for module in model.modules()
            if isinstance(module, Shared) and module.moving is not None
        ]
        optimizer = torch.optim.Adam([{"params": books, "lr": lr}, {"params": moving, "lr": move}])
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
    """The original value of every weight of a model, by the weight's identity."""
    if origin is None:
        return {}
    own, other = dict(model.named_parameters()), dict(origin.named_parameters())
    shapes, other_shapes = (
        {name: parameter.shape for name, parameter in parameters.items()}
        for parameters in (own, other)
    )
    if shapes != other_shapes:
        raise ValueError(
            "origin must be the model before it was quantized, with parameters of the same names "
            "and shapes; got others"
        )
    return {id(weight): other[name].to(weight.device) for name, weight in own.items()}


def _book(weights: list[Tensor]) -> nn.Parameter:
    """The values of some tensors, rising, without zero."""
    values = torch.unique(torch.cat([weight.flatten() for weight in weights]))
    values = values[values != 0]
    if len(values) > MAX_VALUES:
        raise ValueError(
            f"a quantized model has at most {MAX_VALUES} values in a book, got {len(values)}; call "
            "quantise_ first"
        )
    return nn.Parameter(values)


@torch.no_grad()
def _settle_(books: Iterable[nn.Parameter]) -> None:
    for book in books:
        rounded = book.to(torch.bfloat16).to(book.dtype)
        book.copy_(
            torch.where(rounded == 0, torch.finfo(torch.bfloat16).tiny, rounded)
        )  # a kept weight stays kept
