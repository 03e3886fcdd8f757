"""The base of sparse layers: kept weights, ordinary state dicts, inference only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from ..compiled import INFERENCE_ONLY
from .kept import Kept


class SparseModule(nn.Module):
    """CONTRACT: a layer that runs sparse. Subclasses hold matrices by name and compute with them.

    Its state dict is that of the ordinary layer, zeros included, and can be loaded.
    """

    note = ""
    """What `print` adds: the time of the layer, next to that of the dense one."""

    def hold(self, name: str, kept: Kept, *, transposed: bool = False) -> None:
        """Stores a matrix under the name of the ordinary layer's parameter."""
        shapes = self.__dict__.setdefault("_shapes", {})
        shapes[name] = kept.shape, transposed
        for part in ("start", "column", "value"):
            self.register_buffer(f"{name}_{part}", getattr(kept, part), persistent=False)

    def kept(self, name: str) -> Kept:
        """The matrix of this name."""
        start, column, value = (
            getattr(self, f"{name}_{part}") for part in ("start", "column", "value")
        )
        return Kept(start, column, value, self.__dict__["_shapes"][name][0])

    def dense_of(self, name: str) -> Tensor:
        """The matrix of this name as the ordinary layer has it, zeros included."""
        weight = self.kept(name).dense()
        return weight.T.contiguous() if self.__dict__["_shapes"][name][1] else weight

    def deferred(self, name: str) -> Tensor:
        """Like `dense`, but costs nothing if only the weight's type or shape is read."""
        if torch.compiler.is_compiling():
            return self.dense_of(name)
        shape, transposed = self.__dict__["_shapes"][name]
        return Deferred(partial(self.dense_of, name), shape[::-1] if transposed else shape)

    def hold_bias(self, bias: Tensor | None, name: str = "bias") -> None:
        """Stores a bias as a frozen parameter: code may ask a model for its first parameter."""
        kept = None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)
        self.register_parameter(name, kept)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name in self.__dict__.get("_shapes", {}):
            destination[prefix + name] = self.dense_of(name)
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[no-untyped-call]

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, meta: Any, strict: bool, missing: Any, *others: Any
    ) -> None:
        rest = dict(state_dict)
        for name, (shape, transposed) in self.__dict__.get("_shapes", {}).items():
            weight = rest.pop(prefix + name, None)
            state_dict.pop(prefix + name, None)
            if weight is None:
                missing.append(prefix + name)
                continue
            weight = weight.T if transposed else weight
            if tuple(weight.shape) != shape:
                raise ValueError(
                    f"{prefix + name} is {tuple(weight.shape)}, the layer's weight is {shape}; "
                    "load into the ordinary model, then call sg.sparse again"
                )
            self.hold(name, Kept.of(weight.float()), transposed=transposed)
        super()._load_from_state_dict(rest, prefix, meta, strict, missing, *others)  # type: ignore[no-untyped-call]

    def train(self, mode: bool = True) -> SparseModule:
        """Refuses to train."""
        if mode:
            raise RuntimeError(INFERENCE_ONLY)
        return super().train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> SparseModule:
        probe = fn(torch.empty(0))
        if probe.dtype != torch.float32 or probe.device.type != "cpu":
            raise RuntimeError(
                f"a sparse layer computes in float32 on the CPU, got {probe.dtype} on "
                f"{probe.device}; convert the ordinary model, then call sg.sparse again"
            )
        return self


def checked(x: Tensor, size: int, wanted: int) -> Tensor:
    """Returns the input as the kernels read it. Raises ValueError if they cannot.

    Under autocast, inputs of other types become float32, as in torch's layers of that type.
    """
    if x.is_floating_point() and torch.is_autocast_enabled("cpu") and x.is_cpu:
        x = x.float()
    if x.dtype != torch.float32 or not x.is_cpu or size != wanted:
        raise ValueError(
            f"expected float32 inputs on the CPU with {wanted} features, got {x.dtype} on "
            f"{x.device} of shape {tuple(x.shape)}; convert the input, or call sg.sparse on a "
            "model of the other kind"
        )
    if torch.is_grad_enabled() and x.requires_grad:
        raise RuntimeError(INFERENCE_ONLY)
    return x


class Deferred(Tensor):
    """A stand-in for a float32 tensor on the CPU, which computes its values at each use.

    >>> weight = Deferred(lambda: torch.ones(2, 3), (2, 3))
    >>> weight.shape, weight.dtype, weight.sum()
    (torch.Size([2, 3]), torch.float32, tensor(6.))

    Other libraries read a layer's `weight.dtype` or `weight.device` in every forward pass. That
    costs nothing here.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    _make: Callable[[], Tensor]

    @staticmethod
    def __new__(
        cls: type[Deferred], make: Callable[[], Tensor], shape: tuple[int, ...]
    ) -> Deferred:
        """Makes a stand-in of this shape for what `make` returns."""
        made = Tensor._make_wrapper_subclass(
            cls, shape, dtype=torch.float32, device=torch.device("cpu")
        )
        made._make = make
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs an operation on the values."""
        args, kwargs = _pytree.tree_map_only(Deferred, _values, (args, kwargs or {}))
        return func(*args, **kwargs)

    def numpy(self, *, force: bool = False) -> Any:
        """The values as an array."""
        return self._make().numpy(force=force)

    def tolist(self) -> Any:
        """The values as nested lists."""
        return self._make().tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self._make()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._make().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]


def _values(weight: Deferred) -> Tensor:
    return weight._make()
