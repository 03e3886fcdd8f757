"""Runs a model's forward in the engine, with a plan for each shape of its inputs."""

from __future__ import annotations

import copy
import inspect
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from sparsegate.graph import arguments_of, tensors_in
from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.engine import UnplannedError, chrome_trace

from .compiled import INFERENCE_ONLY
from .grouped import Grouped, fastest
from .modules import duplicated, without_nested_tensors_, without_parametrizations_
from .planned import TYPES, captured
from .steps import Steps
from .trial import are_near

PLAIN = (type(None), tuple, list, dict)
"""Types that are taken apart into the tensors inside; caches are of other types."""
MOST_PLANS = 16
"""The number of shapes that are planned; the model's own code runs inputs of further shapes."""


class EngineForward:
    """Replaces a module's forward.

    The module's own forward still runs for inputs that the engine cannot take (other types, caches,
    more shapes than `MOST_PLANS`), for calls from compilers, and if a module inside has hooks.
    """

    def __init__(self, module: nn.Module, skeleton: nn.Module) -> None:
        self._begin(module, skeleton)
        for inner in module.modules():
            inner.register_load_state_dict_post_hook(self._loaded)  # type: ignore[no-untyped-call]

    __name__ = "forward"

    def _begin(self, module: nn.Module, skeleton: nn.Module) -> None:
        self.module, self.skeleton = module, skeleton
        self.plans: dict[Any, Grouped | None] = {}
        self.steps = Steps(self._own, self._whole)
        self._lock = threading.Lock()
        self._hooks: list[Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the module's output."""
        if torch.compiler.is_compiling() or torch._C._is_tracing():
            return self._own(*args, **kwargs)
        if not isinstance(kwargs.get("past_key_values"), PLAIN):
            found = None if args or _is_cast() or self._is_hooked() else self.steps(kwargs)
            return self._own(**kwargs) if found is None else found
        leaves, structure = _flat((args, kwargs))
        planned = self._planned(leaves, structure, args, kwargs)
        if planned is None:
            return self._own(*args, **kwargs)
        if torch.is_grad_enabled() and any(_wants_gradient(leaf) for leaf in leaves):
            raise RuntimeError(INFERENCE_ONLY)
        with torch.no_grad():
            return planned(leaves)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the module's own forward, by which libraries decide what to pass."""
        return inspect.signature(self._own)

    @property
    def __code__(self) -> Any:
        """The code of the module's own forward, which torch.export looks at."""
        return self._own.__code__

    @property
    def _own(self) -> Any:
        return type(self.module).forward.__get__(self.module)

    def key(self, args: Any, kwargs: Any) -> Any:
        """The key of the plan for these inputs."""
        leaves, structure = _flat((tuple(args), dict(kwargs)))
        return (*(_key(leaf) for leaf in leaves), structure)

    def _planned(self, leaves: list[Any], structure: Any, args: Any, kwargs: Any) -> Grouped | None:
        key = (*(_key(leaf) for leaf in leaves), structure)
        if None in key or _is_cast() or self._is_hooked():
            return None
        if key not in self.plans:
            with self._lock:
                if key not in self.plans:
                    self.plans[key] = self._plan(args, kwargs)
        return self.plans[key]

    def _plan(self, args: Any, kwargs: Any) -> Grouped | None:
        if len(self.plans) >= MOST_PLANS:
            return None
        try:
            made = self.plan(args, kwargs)
            self._check(made, args, kwargs)
            return made
        except Exception as error:  # the module's own code runs instead
            warnings.warn(
                f"inputs of these shapes run by the model's own code: {error}", stacklevel=4
            )
            return None

    @torch.no_grad()
    def _check(self, made: Grouped, args: Any, kwargs: Any) -> None:
        """Raises UnplannedError if the module's own code gives something else."""
        args, kwargs = arguments_of(kwargs or tuple(args))  # a forward may change its inputs
        leaves, _ = _flat((args, kwargs))
        with torch.random.fork_rng(devices=()):
            found = made(leaves)
        with torch.random.fork_rng(devices=()):
            wanted = self._own(*args, **kwargs)
        if not are_near(tensors_in(found), tensors_in(wanted)):
            raise UnplannedError("it computes something else than its captured operations")

    def plan(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        progress: Callable[[str], None] | None = None,
    ) -> Grouped:
        """The plan for inputs like these; `progress` hears what is being tried."""
        dense = self._whole()
        if args and kwargs:
            raise UnplannedError("it was called with positional and keyword arguments")
        with torch.no_grad():
            return fastest(partial(captured, dense), kwargs or tuple(args), progress)

    def _whole(self) -> nn.Module:
        return whole(self.skeleton, self.module)

    def trace(self, path: Path | str, *args: Any, **kwargs: Any) -> None:
        """Runs the model once, step by step, and writes a timeline in Chrome's trace format.

        >>> fast.trace("trace.json")  # doctest: +SKIP

        Open the file in https://ui.perfetto.dev or chrome://tracing. All steps run on one thread.
        Each shows its layer, its kind, the positions that it computes, and its rate in GFLOP/s.

        Args:
            path: the file to write.
            args: inputs of the model; without any, zeros in the shapes of the first plan.
            kwargs: inputs by keyword.

        Raises:
            ValueError: the model's own code runs for these inputs, which has no steps.

        """
        leaves, structure = _flat((args, kwargs))
        planned: Grouped | None
        if leaves:
            planned = self._planned(leaves, structure, args, kwargs)
        else:
            planned = next((one for one in self.plans.values() if one is not None), None)
            leaves = [] if planned is None else _placed(planned)
        if planned is None:
            raise ValueError(
                "expected inputs that the engine has planned, got others, which the model's own "
                "code runs; call the model with them once and see its warning"
            )
        with torch.no_grad():
            planned(leaves)
            spans = planned.spans(leaves)
        write_atomically(Path(path), chrome_trace(spans).encode())

    def _is_hooked(self) -> bool:
        """Whether a module inside has hooks, which the engine would not call."""
        if self._hooks is None:
            inner = [one for one in self.module.modules() if one is not self.module]
            kinds = ("_forward_hooks", "_forward_pre_hooks")
            self._hooks = [getattr(one, kind) for one in inner for kind in kinds]
        return any(self._hooks)

    def _loaded(self, *_: Any) -> None:
        """Plans again after weights were loaded."""
        self.plans.clear()
        self.steps.plans.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> EngineForward:
        made = memo[id(self)] = EngineForward.__new__(EngineForward)
        made._begin(copy.deepcopy(self.module, memo), copy.deepcopy(self.skeleton, memo))
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {"module": self.module, "skeleton": self.skeleton}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._begin(state["module"], state["skeleton"])


def _placed(planned: Grouped) -> list[Any]:
    """Zeros where the plan looks for its inputs."""
    inputs = planned.plan.inputs
    leaves: list[Any] = [None] * (1 + max((one.index for one in inputs), default=-1))
    for one, value in zip(inputs, planned.zeros(), strict=True):
        leaves[one.index] = value
    return leaves


def skeleton_of(model: nn.Module) -> nn.Module:
    """A copy of a model whose parameters have shapes but no values."""
    made = without_nested_tensors_(duplicated(model).eval())
    without_parametrizations_(made)
    for module in made.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                empty = torch.empty_like(parameter, device="meta")
                module._parameters[name] = nn.Parameter(empty, requires_grad=False)
    return made


def whole(skeleton: nn.Module, module: nn.Module) -> nn.Module:
    """The skeleton with the weights of a module, zeros included."""
    made = duplicated(skeleton)
    made.load_state_dict(module.state_dict(), strict=False, assign=True)
    left = [name for name, parameter in made.named_parameters() if parameter.is_meta]
    if left:
        raise UnplannedError(f"{left[0]} is not in the state dict")
    return made.eval().requires_grad_(False)


def _flat(given: Any) -> tuple[list[Any], Any]:
    """The tensors and numbers in tuples, lists and dicts; other objects, such as caches, as one."""
    return _pytree.tree_flatten(given, is_leaf=lambda one: type(one) not in (tuple, list, dict))


def _key(leaf: Any) -> Any:
    """The part of the key for one input; None if the engine cannot take it."""
    if isinstance(leaf, Tensor):
        plain = leaf.is_cpu and leaf.layout == torch.strided and leaf.numel() and not leaf.is_neg()
        if (
            not plain
            or leaf.dtype not in TYPES.values()
            or type(leaf) not in (Tensor, nn.Parameter)
        ):
            return None
        return tuple(leaf.shape), leaf.dtype
    if leaf is None or isinstance(leaf, bool | int | float | str):
        return "value", leaf
    return None


def _wants_gradient(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.requires_grad


def _is_cast() -> bool:
    return bool(torch.is_autocast_enabled("cpu"))
