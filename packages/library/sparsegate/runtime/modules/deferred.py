"""A dense weight that is computed only when its values are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree


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
