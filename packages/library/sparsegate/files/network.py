"""A network whose tensors are each in the format that is cheapest for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from sparsegate.gates import check_finished, unwrapped

from .container import ENDING, container_cost, read, write
from .cost import Cost
from .entry import Entry
from .sg.read import read_sg
from .sg.write import write_sg
from .table import packed_table
from .tensors import NAMES, type_name
from .writable_tensors import plain_memory

LIMIT = 16 * 2**30
SG_ENDING = ".sg"
WRITERS = {ENDING: write, SG_ENDING: write_sg}
AnyModule = TypeVar("AnyModule", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Packed:
    """A network in its smallest form; `print` shows where every bit goes.

    It gives back every bit of what was packed, but for floats that are -0.0: unless `compress` was told to keep them,
    they come back as 0.0, and `print` says how many.
    """

    entries: dict[str, Entry]
    same: dict[str, str]
    """Tied names, each with the name of the entry that holds its tensor."""

    def state_dict(self, *, limit: int = LIMIT) -> dict[str, Tensor]:
        """All tensors, dense, bit for bit as they were; more than `limit` bytes of them are refused."""
        wanted = sum(entry.num_bytes for entry in self.entries.values())
        if wanted > limit:
            raise ValueError(
                f"the tensors take {wanted:,} bytes, more than the limit of {limit:,}; raise limit= to load"
            )
        for name in self.entries:
            self._check(name)
        tensors = {name: entry.tensor() for name, entry in self.entries.items()}
        return tensors | {name: tensors[other] for name, other in self.same.items()}

    def into(self, model: AnyModule) -> AnyModule:
        """Loads all tensors into a model, in place; nothing is allocated or written before all is known to fit."""
        inner = unwrapped(model)
        entries = {name: self.entries[self.same.get(name, name)] for name in self}
        _check_agree({name: entry.plan.shape for name, entry in entries.items()}, inner)
        for name in self.entries:
            self._check(name)
        memory, others = plain_memory(inner), {}
        for name, entry in entries.items():
            if name in memory and type_name(memory[name]) == entry.dtype:
                entry.write_(memory[name])
                torch.autograd.graph.increment_version(memory[name])
            else:
                others[name] = entry.tensor()
        inner.load_state_dict(others, strict=False)
        return model

    def save(self, path: Path | str) -> None:
        """Writes the network to a file, whole or not at all; the name's ending says which container."""
        for ending, writer in WRITERS.items():
            if str(path).endswith(ending):
                return writer(self.entries, self.same, Path(path))
        raise ValueError(f"{path} must end in {' or '.join(WRITERS)}")

    @property
    def cost(self) -> Cost:
        """The bits of the `.sparse.safetensors` file: their sum is its size."""
        return sum(
            (entry.cost for entry in self.entries.values()), container_cost(self.entries, self.same)
        )

    def __iter__(self) -> Iterator[str]:
        yield from self.entries
        yield from self.same

    def __str__(self) -> str:
        return packed_table(self.entries, self.same)

    def _check(self, name: str) -> None:
        try:
            self.entries[name].check()
        except ValueError as error:
            raise ValueError(f"{name} ({self.entries[name].format.name}): {error}") from error


def compress(model: nn.Module | Mapping[str, Tensor], *, negative_zeros: bool = False) -> Packed:
    """Puts every tensor of a model, or of a state dict, into its cheapest lossless format.

    >>> layer = nn.Linear(100, 10)
    >>> _ = nn.init.eye_(layer.weight)
    >>> packed = compress(layer)
    >>> packed.entries["weight"].format.name, packed.entries["weight"].cost
    ('gaps', Cost(values=320, indices=120, other=0))

    It does not matter how the zeros came about. A compiled model, or one in DDP, is stored by its own names; tied
    tensors are stored once. Every bit comes back, with one exception: a float's -0.0, which is what multiplying a
    weight by a mask leaves, is a zero like any other. With `negative_zeros` there is no exception: -0.0 is a value,
    kept and paid for like others.
    """
    if isinstance(model, nn.Module):
        check_finished(model)
    state = unwrapped(model).state_dict() if isinstance(model, nn.Module) else dict(model)
    entries: dict[str, Entry] = {}
    same: dict[str, str] = {}
    first: dict[tuple[object, ...], str] = {}
    for name, tensor in state.items():
        _check_storable(name, tensor)
        owner = first.setdefault(_identity(name, tensor), name)
        if owner != name:
            same[name] = owner
        else:
            entries[name] = Entry.cheapest(tensor, negative_zeros=negative_zeros)
    return Packed(entries, same)


def load(path: Path | str, *, limit: int = LIMIT) -> Packed:
    """The network in a file of either container.

    A `.sparse.safetensors` file is checked as its tensors are decoded; an `.sg` file is decoded at once, unless it
    describes more than `limit` bytes of tensors.
    """
    if str(path).endswith(SG_ENDING):
        return Packed(*read_sg(Path(path), limit=limit))
    return Packed(*read(Path(path)))


def _check_storable(name: str, tensor: object) -> None:
    if not isinstance(tensor, Tensor):
        raise ValueError(
            f"{name} is a {type(tensor).__name__}, wanted a tensor; leave it out of the state dict"
        )
    if tensor.dtype not in NAMES or tensor.layout != torch.strided or tensor.is_meta:
        raise ValueError(
            f"{name} is {tensor.dtype}, {tensor.layout}, on {tensor.device}; wanted a dense tensor with data, of "
            f"{', '.join(map(str, NAMES))}"
        )


def _identity(name: str, tensor: Tensor) -> tuple[object, ...]:
    """Equal for tensors that are the same memory seen in the same way."""
    if tensor.numel() == 0:
        return (name,)
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def _check_agree(shapes: dict[str, tuple[int, ...]], model: nn.Module) -> None:
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    problems = [f"missing {name}" for name in wanted if name not in shapes]
    problems += [f"unexpected {name}" for name in shapes if name not in wanted]
    problems += [
        f"{name} is {shapes[name]}, the model's {wanted[name]}"
        for name in wanted
        if name in shapes and shapes[name] != wanted[name]
    ]
    if problems:
        raise ValueError(f"the file does not fit the model: {'; '.join(problems)}")
