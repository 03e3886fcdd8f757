"""Compresses a network tensor by tensor, and loads it from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from sparsegate.gates import check_finished, unwrapped
from sparsegate_runtime.files import (
    ENDING,
    SG_ENDING,
    Cost,
    Entry,
    check_limit,
    header_cost,
    read_entries,
    write_safetensors,
    write_sg,
)

from .summary import summary
from .tensors import NAMES, bits_of, pack_tensor, type_name, unpack_tensor

WRITERS = {ENDING: write_safetensors, SG_ENDING: write_sg}
AnyModule = TypeVar("AnyModule", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Packed:
    """A network in its smallest form. `print` shows where every bit goes.

    Every bit of the tensors comes back, except that -0.0 becomes 0.0 unless `compress` was called
    with `negative_zeros=True`. `print` says how many were changed.
    """

    entries: dict[str, Entry]
    """Every tensor, in its cheapest format."""
    same: dict[str, str]
    """Tied names, each with the name of the entry that holds its tensor."""
    file_bytes: int | None = None
    """The size of the file that the network was loaded from."""
    file: str = ""
    """The file that the network was loaded from, for errors."""

    def state_dict(self, *, limit: int | None = None) -> dict[str, Tensor]:
        """Decodes all tensors.

        Args:
            limit: The most bytes to allocate. The default is half of the machine's memory, and for
                a file at most 4096 times its size or 256 MiB, whichever is more.

        Raises ValueError if the tensors are over the limit, or damaged.

        """
        wanted = sum(entry.num_bytes for entry in self.entries.values())
        check_limit(wanted, limit, file_bytes=self.file_bytes, file=self.file)
        for name in self.entries:
            self._check(name)
        tensors = {name: unpack_tensor(entry) for name, entry in self.entries.items()}
        return tensors | {name: tensors[owner] for name, owner in self.same.items()}

    def into(self, model: AnyModule) -> AnyModule:
        """Loads all tensors into a model, in place, and returns the model.

        Args:
            model: A model with the same names and shapes. Another element type is converted.

        Raises ValueError if anything does not fit or is damaged; the model is unchanged then.

        """
        inner = unwrapped(model)
        entries = {name: self.entries[self.same.get(name, name)] for name in self}
        _check_agree({name: entry.shape for name, entry in entries.items()}, inner, self.file)
        for name in self.entries:
            self._check(name)
        memory, others = writable_tensors(inner), {}
        for name, entry in entries.items():
            if name in memory and type_name(memory[name]) == entry.dtype:
                entry.write_(bits_of(memory[name]))
                torch.autograd.graph.increment_version(memory[name])
            else:
                others[name] = unpack_tensor(entry)
        inner.load_state_dict(others, strict=False)
        return model

    def save(self, path: Path | str) -> None:
        """Writes the network to a file. An interrupted write leaves no partial file.

        Args:
            path: The file. Its name ends in `.sg` for the smallest file, or in
                `.sparse.safetensors` for one that any reader of safetensors opens.

        """
        for ending, writer in WRITERS.items():
            if str(path).endswith(ending):
                return writer(self.entries, self.same, Path(path))
        raise ValueError(f"the file's name must end in {' or '.join(WRITERS)}, got {path}")

    @property
    def cost(self) -> Cost:
        """The bits of the `.sparse.safetensors` file; their sum is its size."""
        header = header_cost(self.entries, self.same)
        return sum((entry.cost for entry in self.entries.values()), header)

    def __iter__(self) -> Iterator[str]:
        yield from self.entries
        yield from self.same

    def __str__(self) -> str:
        return summary(self.entries, self.same)

    def _check(self, name: str) -> None:
        try:
            self.entries[name].check()
        except ValueError as error:
            where = f"{self.file}: {name}" if self.file else name
            raise ValueError(f"{where} ({self.entries[name].format.name}): {error}") from error


def compress(model: nn.Module | Mapping[str, Tensor], *, negative_zeros: bool = False) -> Packed:
    """Stores every tensor of a model or state dict in its cheapest lossless format.

    >>> layer = nn.Linear(100, 10)
    >>> _ = nn.init.eye_(layer.weight)
    >>> packed = compress(layer)
    >>> packed.entries["weight"].format.name, packed.entries["weight"].cost
    ('gaps', Cost(values=320, indices=120, other=0))

    Args:
        model: A model without gates, or its state dict. It is not changed. Any method may have
            made its zeros.
        negative_zeros: Whether to keep -0.0. By default it becomes 0.0, because multiplying a
            negative weight by a mask leaves -0.0.

    Tied tensors are stored once. Compiled models and models in DDP keep their original names.

    """
    if isinstance(model, nn.Module):
        check_finished(model)
    state = unwrapped(model).state_dict() if isinstance(model, nn.Module) else dict(model)
    entries: dict[str, Entry] = {}
    tied: dict[str, str] = {}
    owners: dict[tuple[object, ...], str] = {}
    for name, tensor in state.items():
        _check_storable(name, tensor)
        owner = owners.setdefault(_identity(name, tensor), name)
        if owner != name:
            tied[name] = owner
        else:
            entries[name] = pack_tensor(tensor, negative_zeros=negative_zeros)
    return Packed(entries, tied)


def load(path: Path | str, *, limit: int | None = None) -> Packed:
    """Loads a network from an `.sg` or `.sparse.safetensors` file.

        model = sg.load("model.sg").into(Model())

    Args:
        path: The file. A name that ends in `.sg` means that format.
        limit: The most bytes of dense tensors that an `.sg` file may describe. The default is half
            of the machine's memory, and at most 4096 times the size of the file or 256 MiB,
            whichever is more. `.sparse.safetensors` files are decoded by `Packed.state_dict`.

    Everything in the file is checked: a damaged or malicious one raises ValueError.

    """
    path = Path(path)
    entries, tied = read_entries(path, limit=limit)
    return Packed(entries, tied, path.stat().st_size if limit is None else None, str(path))


def _check_storable(name: str, tensor: object) -> None:
    if not isinstance(tensor, Tensor):
        raise ValueError(
            f"a state dict must hold tensors, got a {type(tensor).__name__} for {name}"
        )
    if tensor.dtype not in NAMES or tensor.layout != torch.strided or tensor.is_meta:
        raise ValueError(
            f"{name} must be a dense tensor with data, of {', '.join(map(str, NAMES))}; "
            f"got {tensor.dtype}, {tensor.layout}, on {tensor.device}"
        )


def _identity(name: str, tensor: Tensor) -> tuple[object, ...]:
    """Equal for tensors that are the same view of the same memory."""
    if tensor.numel() == 0:
        return (name,)
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def _check_agree(shapes: dict[str, tuple[int, ...]], model: nn.Module, file: str) -> None:
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    problems = [f"missing {name}" for name in wanted if name not in shapes]
    problems += [f"unexpected {name}" for name in shapes if name not in wanted]
    problems += [
        f"{name} is {shapes[name]}, the model's {wanted[name]}"
        for name in wanted
        if name in shapes and shapes[name] != wanted[name]
    ]
    if problems:
        raise ValueError(f"{file or 'the file'} does not fit the model: {'; '.join(problems)}")


HOOKS = (
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
)
METHODS = ("_load_from_state_dict", "load_state_dict", "_save_to_state_dict", "state_dict")


def writable_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The CPU tensors that `load_state_dict` would only copy into.

    >>> list(writable_tensors(nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))))
    ['0.weight', '0.bias']

    Modules that customize loading or saving, such as BatchNorm, are left out with their children.
    """
    prefixes = [
        f"{name}." if name else "" for name, module in model.named_modules() if _is_custom(module)
    ]
    return {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith(tuple(prefixes)) and _is_plain(tensor)
    }


def _is_custom(module: nn.Module) -> bool:
    overrides = any(getattr(type(module), name) is not getattr(nn.Module, name) for name in METHODS)
    return overrides or any(getattr(module, name) for name in HOOKS)


def _is_plain(tensor: object) -> bool:
    return (
        type(tensor) is Tensor
        and tensor.dtype in NAMES
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg())
    )
