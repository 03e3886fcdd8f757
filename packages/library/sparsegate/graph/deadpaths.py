"""Dead paths: weights and biases that no output can feel, because a unit next to them has died."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .chain import Chain, Example, Layer, Reader, find_chains, inputs_of
from .step import Step


@dataclass(frozen=True)
class Removed:
    """What `remove_dead_paths` has set to zero, by parameter."""

    weights: dict[str, int]
    """How many weights, for every parameter with two or more dimensions."""
    biases: dict[str, int]
    """How many biases, BatchNorm's scales and shifts among them, for every other parameter."""
    left: dict[str, str]
    """Layers whose own units were left alone, each with what they meet: `output` for the last, `add` for a residual."""

    @property
    def num_weights(self) -> int:
        """Weights in all."""
        return sum(self.weights.values())

    @property
    def num_biases(self) -> int:
        """Biases in all."""
        return sum(self.biases.values())


@torch.no_grad()
def remove_dead_paths(model: nn.Module, example: Example) -> Removed:
    """Sets the weights and biases of dead units to zero, in place; in eval the model computes what it did before.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> _ = model[0].weight.data.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))  # unit 1 reads nothing,
    >>> _ = model[0].bias.data.fill_(3.0)  # so it is always 3
    >>> _ = model[2].weight.data.copy_(torch.tensor([[1.0, 2.0]]))
    >>> _ = model[2].bias.data.fill_(0.5)
    >>> removed = remove_dead_paths(model, torch.zeros(1, 2))
    >>> removed.num_weights, removed.num_biases
    (1, 1)
    >>> model[2].weight.data, model[2].bias.data  # 6.5 = 0.5 + 2 * 3
    (tensor([[1., 0.]]), tensor([6.5000]))

    A unit (a feature of a Linear, a channel of a Conv) is dead if nobody reads it, or if it reads nothing or its
    BatchNorm's scale is zero; then it is constant, and its constant goes into the biases of the layers that read it.
    Left alone are constants that would go into a layer without a bias, or into a zero-padded convolution or average,
    where they are not constant at the border; and units that meet something not known to keep units apart: a sum, a
    concatenation, a shared module. A fold may give a bias to a unit that had none.
    """
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    with evaluating(model):
        chains, left = find_chains(model, example)
        wanted = outputs(model, example)
        _remove_(chains)
        same = is_same(outputs(model, example), wanted)
    if not same:
        _restore_(model, before)
        raise ValueError(
            f"{type(model).__name__} would compute something else without its dead paths, so nothing was changed: "
            "its forward reads weights in a way that torch.fx does not see"
        )
    return _removed(model, before, left)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Puts a model into eval, and its modules back into their modes."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def outputs(model: nn.Module, example: Example) -> list[Tensor]:
    """The tensors that a model makes of the example, each time with the same random numbers, if it draws any."""
    with torch.random.fork_rng(devices=()):
        return _tensors(model(*inputs_of(example)))


def is_same(found: list[Tensor], wanted: list[Tensor]) -> bool:
    """Whether two results agree up to rounding: half of a number's digits, relative to the largest."""
    return [one.shape for one in found] == [other.shape for other in wanted] and all(
        _is_close(one, other) for one, other in zip(found, wanted, strict=True) if other.numel()
    )


def live_units(chain: Chain) -> Tensor:
    """The units that somebody reads, as a mask."""
    units = len(chain.layer.weight)
    return torch.stack(
        [_read(reader.layer).view(units, -1).any(1) for reader in chain.readers]
    ).any(0)


def _is_close(one: Tensor, other: Tensor) -> bool:
    if not other.is_floating_point():
        return torch.equal(one, other)
    tolerance = torch.finfo(other.dtype).eps ** 0.5 * other.abs().max().item()
    return torch.allclose(one, other, rtol=0, atol=tolerance)


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    parts = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, list | tuple)
        else ()
    )
    return [tensor for part in parts for tensor in _tensors(part)]


def _remove_(chains: list[Chain]) -> None:
    # Once there and back is enough: a fold changes only readers, which come later in one order, and clearing
    # changes only what the units read, which comes later in the other.
    for chain in chains:
        for reader in chain.readers:
            _fold_(chain, reader)
    for chain in reversed(chains):
        _clear_(chain)


def _fold_(chain: Chain, reader: Reader) -> None:
    """Moves constants that a layer reads into its bias, in place."""
    layer = reader.layer
    constant, values = _constants(chain, reader)
    takes = constant & _read(layer) & ((values == 0) | _takes_constants(layer))
    if layer.bias is not None:
        layer.bias.add_(_contribution(layer, takes, values))
    layer.weight.masked_fill_(_spread(layer, takes), 0)


def _constants(chain: Chain, reader: Reader) -> tuple[Tensor, Tensor]:
    """Which features that a layer reads are the same for every input and place, as a mask, and their values."""
    layer, axis = chain.layer, chain.axis
    bias = layer.bias if layer.bias is not None else layer.weight.new_zeros(len(layer.weight))
    constant = (layer.weight == 0).flatten(1).all(1)
    value = (
        bias.view([-1 if place == axis else 1 for place in range(len(chain.shape))])
        .expand(chain.shape)
        .clone()
    )
    for step in reader.steps:
        constant = _still_constant(constant, value, step)
        value, axis = step.run(value), step.axis
        constant = constant.repeat_interleave(value.shape[axis] // len(constant))
    values = value.movedim(axis, 0).reshape(value.shape[axis], -1)[:, 0]
    return constant & values.isfinite(), values


def _still_constant(constant: Tensor, value: Tensor, step: Step) -> Tensor:
    """Which features are constant after a step, as a mask; a norm can make some so, a pool unmake them at a border."""
    if step.norm is not None and step.norm.affine:
        return constant | (step.norm.weight == 0)
    if not step.pools:
        return constant
    exact = value.double()  # else the rounding of a long average looks like a border
    places = torch.cat(
        [each.movedim(step.axis, 0).flatten(1) for each in (exact, step.run(exact))], dim=1
    )
    low, high = places.aminmax(dim=1)
    return constant & (high - low <= 1e-9 * high.abs())


def _clear_(chain: Chain) -> None:
    """Sets everything of the units that nobody reads to zero, in place."""
    dead = ~live_units(chain)
    for owner in (chain.layer, *chain.norms):
        for tensor in (owner.weight, owner.bias):
            if tensor is not None:
                tensor[dead.repeat_interleave(len(tensor) // len(dead))] = 0


def _takes_constants(layer: Layer) -> bool:
    """Whether a layer makes the same of a constant everywhere, and has a bias to put that into."""
    if isinstance(layer, nn.Linear):
        return layer.bias is not None
    unpadded = (
        layer.padding == "valid" or set(layer.padding) == {0} or layer.padding_mode != "zeros"
    )
    return layer.bias is not None and unpadded


def _groups(layer: Layer) -> int:
    return 1 if isinstance(layer, nn.Linear) else layer.groups


def _blocks(layer: Layer) -> Tensor:
    """The weight as groups x outputs x inputs x places."""
    outputs, inputs, *_ = layer.weight.shape
    return layer.weight.reshape(_groups(layer), outputs // _groups(layer), inputs, -1)


def _read(layer: Layer) -> Tensor:
    """The inputs that a layer has weights for, as a mask."""
    return (_blocks(layer) != 0).any(dim=3).any(dim=1).flatten()


def _contribution(layer: Layer, takes: Tensor, values: Tensor) -> Tensor:
    """What the taken inputs, at their values, add to every output."""
    groups = _groups(layer)
    columns = takes.view(groups, -1).any(0)
    amounts = torch.where(takes, values, 0).view(groups, -1)[:, columns].double()
    return (_blocks(layer)[:, :, columns].double().sum(3) @ amounts.unsqueeze(2)).flatten()


def _spread(layer: Layer, takes: Tensor) -> Tensor:
    """A mask over inputs as one over weights."""
    outputs, inputs, *places = layer.weight.shape
    groups = _groups(layer)
    mask = (
        takes.view(groups, 1, inputs)
        .expand(groups, outputs // groups, inputs)
        .reshape(outputs, inputs)
    )
    return mask.view(outputs, inputs, *[1] * len(places))


def _restore_(model: nn.Module, before: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(before[name])


def _removed(model: nn.Module, before: dict[str, Tensor], left: dict[str, str]) -> Removed:
    after = dict(model.named_parameters())
    counts = {name: int(((was != 0) & (after[name] == 0)).sum()) for name, was in before.items()}
    weights = {name: count for name, count in counts.items() if before[name].ndim >= 2}
    return Removed(
        weights, {name: count for name, count in counts.items() if name not in weights}, left
    )
