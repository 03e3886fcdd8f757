"""Runs a captured network whose layers are dense or sparse, as was measured to be faster."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling, is_dynamo_compiling

from sparsegate.graph import Graph, capture, copied

from .autotune import forced, measured
from .choice import Choice, load_choices, save_choices
from .compiled import INFERENCE_ONLY, UNTRACED, call_by_name, register
from .part import Direct
from .plan import planned, short_cut
from .sparsable import captured, checked, pieces

MOST_SIZES = 16
"""The number of other sizes of inputs that are planned; torch runs further ones."""


class SparseNetwork(nn.Module):
    """A model that runs by the kernels chosen for it; its state dict is the original model's.

    Inference only. `print` shows what was chosen and why.
    """

    model: nn.Module
    _graph: Graph

    def __init__(self, model: nn.Module, example: Tensor) -> None:
        super().__init__()
        self.example = example
        self.choices: tuple[Choice, ...] = ()
        self._plans: dict[int, Callable[[Tensor], Tensor]] = {}
        self._direct: dict[torch.Size, Direct] = {}
        self._sizes: dict[torch.Size, Callable[[Tensor], Tensor]] = {}
        self._anchor = torch.zeros((), requires_grad=True)
        self._output: tuple[tuple[int, ...], torch.dtype] = (), example.dtype
        self._name = register(self)
        self.__dict__["model"] = model
        # Shared with the model under the same names, so that state dicts fit, a parent's too.
        self._modules, self._parameters, self._buffers = (
            model._modules,
            model._parameters,
            model._buffers,
        )
        self._non_persistent_buffers_set = model._non_persistent_buffers_set
        self.register_load_state_dict_post_hook(_pack_again)  # type: ignore[no-untyped-call]
        self.__dict__["_graph"] = checked(captured(model, example), example)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the plan for this shape directly, unless hooks or gradients need more."""
        if kwargs or len(args) != 1:
            alone = self._alone(args, kwargs)
            if alone is None:  # further arguments than the example's: the model's own code
                return self.model(*args, **kwargs)
            args = (alone,)
        (x,) = args
        if is_dynamo_compiling():
            return call_by_name(self._uncast(x), self._name)
        try:
            out = self._direct[x.shape](x)
        except (KeyError, AttributeError):  # the first input of its shape, or no tensor
            out = NotImplemented
        return super().__call__(x) if out is NotImplemented else out

    def _alone(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The input if it was given by keyword and nothing else was; else None."""
        first = next(iter(inspect.signature(self.model.forward).parameters), "x")
        if args or len(kwargs) != 1:
            return None
        return kwargs.get(first, kwargs.get("x"))

    def forward(self, x: Tensor) -> Tensor:
        """Returns the model's output, with the choices for the nearest batch size."""
        if not isinstance(x, Tensor):
            raise ValueError(
                f"a sparse network takes one batch of inputs, a tensor, got {type(x).__name__}"
            )
        if torch._C._is_tracing() or is_compiling():  # by torch.jit or torch.export
            raise RuntimeError(UNTRACED)
        if torch.is_autocast_enabled(self.example.device.type):
            with torch.autocast(
                self.example.device.type, enabled=False
            ):  # kernels have the type they were packed in
                return self.forward(x.to(self.example.dtype))
        if x.shape[1:] != self.example.shape[1:] and self._is_alike(x):
            return self._sized(x)(x)
        plan = self._plans.get(len(x)) or self._nearest(len(x))
        if x.shape not in self._direct:
            self._direct[x.shape] = short_cut(self, plan, len(x))
        if not torch.is_grad_enabled():
            return plan(x)
        return _InferenceOnly.apply(plan, x, self._anchor)  # type: ignore[no-any-return,no-untyped-call]

    def _uncast(self, x: Tensor) -> Tensor:
        """Under autocast, casts the input to the type that the kernels were packed for."""
        return (
            x.to(self.example.dtype) if torch.is_autocast_enabled(self.example.device.type) else x
        )

    def empty_output(self, x: Tensor) -> Tensor:
        """An empty output for compilers, which do not call the network."""
        shape, dtype = self._output
        if x.shape[1:] != self.example.shape[1:]:
            raise RuntimeError(
                f"torch.compile needs inputs of the example's size, {tuple(self.example.shape[1:])}"
                f", got {tuple(x.shape[1:])}; call sg.sparse again with an example of that size"
            )
        if shape[:1] != self.example.shape[:1]:
            raise RuntimeError(
                f"torch.compile needs as many outputs as inputs; {len(self.example)} inputs give a "
                f"tensor of {shape}: compile what comes before and after the sparse network"
            )
        return x.new_empty((x.shape[0], *shape[1:]), dtype=dtype)

    def use(self, *choices: Choice) -> None:
        """Runs with these choices from now on."""
        if not choices:
            raise ValueError("choices is empty; leave it out to measure")
        plans = {choice.batch: self._planned(choice, choice.batch) for choice in choices}
        (output,) = self._graph.outputs
        assert output is not None
        batch = len(self.example) if output.batched else output.shape[0]
        zeros = {piece.name: piece.sparsity for piece in pieces(self._graph)}
        now = tuple(choice.with_sparsities(zeros) for choice in choices)
        self._output = (batch, *output.shape[1:]), output.dtype or self.example.dtype
        self.__dict__.update(choices=now, _plans=plans, _direct={}, _sizes={})  # as layers' names

    def choose(self, batches: Sequence[int] | None = None) -> None:
        """Measures again.

        Args:
            batches: batch sizes; the previous ones, or else the example's, unless given.
        """
        if batches is None:
            batches = [choice.batch for choice in self.choices] or [len(self.example)]
        _check_batches(batches, self.example)
        with torch.autocast(self.example.device.type, enabled=False):
            examples = [_of_size(self.example, batch) for batch in batches]
            self.use(*(measured(self._graph_for(len(one)), one) for one in examples))

    def save_choices(self, path: Path | str) -> None:
        """Writes the choices as JSON, for `sparse(..., choices=path)` on a similar machine."""
        save_choices(self.choices, path)

    def train(self, mode: bool = True) -> SparseNetwork:
        """Refuses to train."""
        if mode:
            raise RuntimeError(INFERENCE_ONLY)
        return super().train(False)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the model's own state dict."""
        return self.model.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Loads the model's weights and packs them again, with the same choices."""
        try:
            return self.model.load_state_dict(state_dict, *args, **kwargs)
        finally:  # torch loads what fits before it reports the rest
            self.use(*self.choices)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SparseNetwork:
        raise RuntimeError(
            "a sparse network stays on the device where it was measured; move the model, then call "
            "sg.sparse again"
        )

    def _is_alike(self, x: Tensor) -> bool:
        """Whether an input has the example's type and device."""
        return x.dtype == self.example.dtype and x.device == self.example.device

    def _sized(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """Runs inputs of another size than the example's; planned once for every size."""
        size = x.shape[1:]
        if size not in self._sizes:
            if len(self._sizes) >= MOST_SIZES or not size:
                return self.model
            self._sizes[size] = self._planned_for(x.detach().clone())
        return self._sizes[size]

    @torch.no_grad()
    def _planned_for(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        try:
            self.model(x.clone())
        except Exception as error:
            wanted, got = (tuple(one.shape[1:]) for one in (self.example, x))
            raise ValueError(
                f"made for inputs of shape {wanted}, got {got}, on which the model does not run "
                f"({type(error).__name__}: {str(error).partition(chr(10))[0]})"
            ) from error
        try:
            made = SparseNetwork(self.model, x)
            made.use(*(_known(choice, made._graph) for choice in self.choices))
        except Exception as error:  # capture does not know the model at this size
            warnings.warn(
                f"inputs of shape {tuple(x.shape[1:])} run by torch: {error}", stacklevel=4
            )
            return self.model
        return made

    def _nearest(self, batch: int) -> Callable[[Tensor], Tensor]:
        nearest = min(
            self.choices, key=lambda each: abs(log(max(each.batch, 1)) - log(max(batch, 1)))
        )
        known = self._graph.batches
        if batch in known and nearest.batch in known:
            self._plans[batch] = self._plans[nearest.batch]
        else:
            self._plans[batch] = self._planned(_known(nearest, self._graph_for(batch)), batch)
        return self._plans[batch]

    def _planned(self, choice: Choice, batch: int) -> Callable[[Tensor], Tensor]:
        graph = self._graph_for(batch)
        return planned(graph, choice.kernels, channels_last=choice.channels_last)

    def _graph_for(self, batch: int) -> Graph:
        """The captured model; it is captured again for batch sizes that it treats differently."""
        if batch in self._graph.batches or not len(self.example):
            return self._graph
        return capture(self.model, _of_size(self.example, batch))

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseNetwork:
        return _packed(self.model, self.example, self.choices)

    def __reduce__(self) -> Any:
        return _packed, (self.model, self.example, self.choices)  # pointers cannot be pickled

    def __repr__(self) -> str:
        return "\n\n".join(choice.table() for choice in self.choices)


def _known(choice: Choice, graph: Graph) -> Choice:
    """A choice without layers that the graph does not have."""
    names = {piece.name for piece in pieces(graph)}
    return replace(choice, layers=tuple(one for one in choice.layers if one.name in names))


def _own(model: nn.Module) -> nn.Module:
    """A copy of an ordinary model, in eval."""
    check_ordinary(model)
    return copied(model).eval().requires_grad_(False)


def _packed(model: nn.Module, example: Tensor, choices: Sequence[Choice]) -> SparseNetwork:
    made = SparseNetwork(_own(model), example)
    made.use(*choices)
    return made


def _pack_again(network: SparseNetwork, _: object) -> None:
    """Packs again after a parent's `load_state_dict`."""
    network.use(*network.choices)


class _InferenceOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Callable[[Tensor], Tensor], x: Tensor, anchor: Tensor) -> Tensor:
        return plan(x).data  # not a view: views cannot be changed in place

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(INFERENCE_ONLY)


def sparse(
    model: nn.Module,
    example: Tensor,
    *,
    batches: Sequence[int] | None = None,
    kernel: str | None = None,
    choices: Path | str | Sequence[Choice] | None = None,
) -> SparseNetwork:
    """Captures a model and chooses how each of its layers runs.

    >>> model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    >>> _ = model[0].weight.data.mul_(torch.rand(64, 64) < 0.05)
    >>> fast = sparse(model, torch.zeros(1, 64), kernel="dense")
    >>> fast(torch.zeros(3, 64)).shape
    torch.Size([3, 10])

    Args:
        model: the finished model.
        example: one batch of inputs, on the device to measure on.
        batches: batch sizes to measure instead of the example's.
        kernel: one kernel for all layers that it can run.
        choices: earlier choices, from a file or another network; nothing is measured then.
    """
    if not isinstance(example, Tensor) or not example.ndim:
        raise ValueError(
            f"example is one batch of the model's inputs, a tensor, got {type(example).__name__}; "
            "wrap a model that takes several in one that takes one"
        )
    asked = {"batches": batches, "kernel": kernel, "choices": choices}
    if sum(each is not None for each in asked.values()) > 1:
        names = " and ".join(name for name, each in asked.items() if each is not None)
        raise ValueError(f"pass only one of batches, kernel and choices, got {names}")
    made = SparseNetwork(_own(model), example)
    if choices is not None:
        made.use(*_read(choices))
    elif kernel is not None:
        made.use(forced(made._graph, example, kernel))
    else:
        made.choose(batches)
    return made


def check_ordinary(model: nn.Module) -> None:
    """Raises ValueError if the model is a sparse network or contains one."""
    inside = [name for name, each in model.named_modules() if isinstance(each, SparseNetwork)]
    if inside:
        where = f"its {', '.join(inside)} is one" if any(inside) else "it is one"
        raise ValueError(
            f"the model has been made by sg.sparse already: {where}; pass the ordinary model"
        )


def _read(choices: Any) -> tuple[Choice, ...]:
    if isinstance(choices, str | Path):
        return load_choices(choices)
    if not isinstance(choices, Sequence) or not all(isinstance(each, Choice) for each in choices):
        raise ValueError(
            f"choices are a file or another network's choices, a tuple; got {choices!r}"
        )
    return tuple(choices)


def _check_batches(batches: Sequence[int], example: Tensor) -> None:
    whole = isinstance(batches, Sequence) and all(
        isinstance(each, int) and each >= 0 for each in batches
    )
    if not whole or not batches or (any(batches) and not len(example)):
        raise ValueError(
            "batches are numbers of inputs, made from an example of at least one, got "
            f"batches={batches!r} and an example of {len(example)}"
        )


def _of_size(example: Tensor, batch: int) -> Tensor:
    return example if batch == len(example) else example[torch.arange(batch) % len(example)]
