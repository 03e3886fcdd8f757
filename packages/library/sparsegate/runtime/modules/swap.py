"""Replaces layers by sparse ones in a copy of any model, whose own code runs as before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import (
    is_parametrized,
    type_before_parametrizations,
)

from sparsegate.graph import arguments_of, check_runs

from ..measure import interleaved
from .attention import SparseAttention, fits_attention
from .conv import SparseConv
from .duplicate import duplicated, stand_in
from .linear import SparseLinear
from .padded_encoder import without_nested_tensors_
from .recurrent import SparseRecurrent, fits_recurrent
from .sparse_module import SparseModule
from .transposed import SparseTransposed

WORTH_TRYING = 0.3
"""Layers with a smaller fraction of zeros than this stay dense and are not measured."""
LIKELY = 0.7
"""Layers with at least this fraction of zeros are nearly always faster sparse."""
SECONDS = 0.05
"""Seconds for timing each distinct layer, dense and sparse."""


@dataclass(frozen=True)
class Swap:
    """The decision for one layer."""

    name: str
    kind: str
    sparsity: float
    kernel: str
    """`sparse` or `dense`."""
    dense_ms: float | None = None
    sparse_ms: float | None = None
    reason: str = ""
    """Why torch runs the layer and it was not measured."""


FORMS: dict[type[nn.Module], Callable[[Any], SparseModule]] = {
    nn.Linear: SparseLinear.of,
    nn.Conv1d: SparseConv.of,
    nn.Conv2d: SparseConv.of,
    nn.ConvTranspose1d: SparseTransposed.of,
    nn.ConvTranspose2d: SparseTransposed.of,
}
"""Layers with one weight; subclasses count too if their forward is the same."""


def sparse_form(module: nn.Module) -> Callable[[Any], SparseModule] | str:
    """How to make the sparse form of a layer, or why there is none.

    >>> sparse_form(nn.Bilinear(2, 2, 2))
    'Bilinear has no sparse form'
    """
    kind = type_before_parametrizations(module)  # type: ignore[no-untyped-call]
    for ordinary, form in FORMS.items():
        if issubclass(kind, ordinary) and _computes_like(kind, ordinary):
            return form
    if _is_conv1d_of_transformers(module):
        return SparseLinear.of
    if isinstance(module, nn.RNNBase):
        return SparseRecurrent.of if fits_recurrent(module) else "recurrent layers with projections"
    if kind is nn.MultiheadAttention:
        return SparseAttention.of if fits_attention(module) else "attention with added keys"
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return "it looks rows up and multiplies nothing"
    return f"{kind.__name__} has no sparse form"


def _computes_like(kind: type[nn.Module], ordinary: type[nn.Module]) -> bool:
    """Whether a class computes with the methods of the ordinary layer."""
    methods = ("forward", "_conv_forward", "__call__")
    return all(getattr(kind, name, None) is getattr(ordinary, name, None) for name in methods)


def swapped(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    force: bool = False,
    measure: bool = True,
) -> tuple[nn.Module, list[Swap]]:
    """Replaces the layers that are faster sparse, in a copy; also returns the decisions.

    The model's own code runs, so `generate`, hooks and outputs of any kind work as before. Weights
    that a parametrization computes become ordinary ones.

    Args:
        model: the model; it is not changed.
        args: positional arguments of the example.
        kwargs: keyword arguments of the example.
        force: replace every layer that has a sparse form.
        measure: time the layers; otherwise, those with many zeros are replaced.

    """
    made = without_nested_tensors_(duplicated(model).eval())
    if not isinstance(made, torch.jit.ScriptModule):
        made.requires_grad_(False)
    without_parametrizations_(made)
    is_timed = measure and not force
    inputs = _inputs(made, args, kwargs) if is_timed else {}
    report: list[Swap] = []
    measured: dict[Any, tuple[float, float]] = {}
    for name, module in _layers(made):
        given: Any = inputs.get(name) if is_timed else ((), {})
        change = _decide(name, module, given, measured, force=force, measure=measure)
        report.append(change[0])
        if change[1] is not None:
            made = _put(made, name, _with_hooks_of(module, change[1]))
    return made, report


def _layers(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Layers with matrices, outermost first: projections inside an attention belong to it."""
    found: list[tuple[str, nn.Module]] = []
    taken: list[str] = []
    for name, module in model.named_modules():
        if any(name.startswith(prefix) for prefix in taken):
            continue
        own = [p for p in module.parameters(recurse=False) if p.ndim > 1]
        if is_parametrized(module):
            own = list(module.parameters())
        if callable(sparse_form(module)):
            taken.append(f"{name}." if name else "")
        if own:
            found.append((name, module))
    return found


def without_parametrizations_(model: nn.Module) -> None:
    """Makes the weights that parametrizations of layers compute ordinary ones, in place.

    torch's function would also change the class of the module that this one is a copy of.
    """
    for _, module in _layers(model):
        if is_parametrized(module) and callable(sparse_form(module)):
            _make_ordinary_(module)


def _make_ordinary_(module: nn.Module) -> None:
    names = list(module.parametrizations)  # type: ignore[arg-type,union-attr]
    values = {name: getattr(module, name).detach().clone() for name in names}
    module.__class__ = type_before_parametrizations(module)  # type: ignore[no-untyped-call]
    del module._modules["parametrizations"]
    for name, value in values.items():
        module.register_parameter(name, nn.Parameter(value, requires_grad=False))


def _with_hooks_of(module: nn.Module, layer: nn.Module) -> nn.Module:
    """The sparse layer with the hooks of the ordinary one."""
    for name, hooks in vars(module).items():
        if name in HOOKS:
            layer.__dict__[name] = hooks
    return layer


HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)


def _decide(
    name: str,
    module: nn.Module,
    given: Any,
    measured: dict[Any, tuple[float, float]],
    *,
    force: bool,
    measure: bool = True,
) -> tuple[Swap, nn.Module | None]:
    """Decides about a layer; also returns its sparse form if that replaces it."""
    kind, zeros, form = type(module).__name__, _sparsity(module), sparse_form(module)
    if reason := _why_left(module, zeros, given, force=force):
        return Swap(name, kind, zeros, "dense", reason=reason), None
    if not measure and zeros < LIKELY:
        return Swap(name, kind, zeros, "dense", reason=f"less than {LIKELY:.0%} zeros"), None
    assert callable(form)
    layer = form(module).eval()
    if force or not measure:
        return Swap(name, kind, zeros, "sparse"), layer
    key = (kind, repr([p.shape for p in module.parameters()]), round(zeros, 2), _shapes(given))
    if key not in measured:
        measured[key] = _times(module, layer, given)
    dense, sparse = measured[key]
    if sparse >= dense:
        return Swap(name, kind, zeros, "dense", dense, sparse), None
    layer.note = f", {sparse:.3f} ms (dense {dense:.3f})"
    return Swap(name, kind, zeros, "sparse", dense, sparse), layer


def _why_left(module: nn.Module, zeros: float, given: Any, *, force: bool) -> str:
    """Why a layer stays dense without being measured; empty if it is measured."""
    form, weights = sparse_form(module), _matrices(module)
    if isinstance(form, str):
        return form
    if any(weight.dtype != torch.float32 or not weight.is_cpu for weight in weights):
        return "sparse layers are float32 on the CPU"
    if not all(bool(weight.isfinite().all()) for weight in weights):
        return "its weights contain NaN or infinity"
    if callable(vars(module).get("forward")):
        return "its forward was replaced"
    if form in FORMS.values() and "weight" not in module._parameters:
        return "its weight is computed by a hook"
    if zeros < WORTH_TRYING and not force:
        return f"less than {WORTH_TRYING:.0%} zeros"
    return "the example does not reach it" if given is None and not force else ""


def _times(module: nn.Module, layer: nn.Module, given: Any) -> tuple[float, float]:
    """Milliseconds of the dense and the sparse layer, on the layer's input in the example."""
    args, kwargs = given
    ways = {"dense": partial(module, *args, **kwargs), "sparse": partial(layer, *args, **kwargs)}
    with torch.no_grad():
        times = interleaved(ways, seconds=SECONDS)
    return 1e3 * times["dense"], 1e3 * times["sparse"]


def _matrices(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.ndim > 1]


def _sparsity(module: nn.Module) -> float:
    weights = _matrices(module)
    zeros = sum(int((weight == 0).sum()) for weight in weights)
    return zeros / max(1, sum(weight.numel() for weight in weights))


def _inputs(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of each layer when the example passes through the model."""
    found: dict[str, Any] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            found[name] = args, kwargs

        return hook

    trial = stand_in(model)  # the forward may change more than its layers
    handles = [
        module.register_forward_pre_hook(keep(name), with_kwargs=True)
        for name, module in _layers(trial)
    ]
    args, kwargs = arguments_of(kwargs or args)
    try:
        with torch.no_grad():
            check_runs(trial, args, kwargs)
    finally:
        for handle in handles:  # the trial may share the model's dictionaries of hooks
            handle.remove()
    return found


def _put(model: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    """Replaces the layer of this name, and of every other name of the same module."""
    if not name:
        return layer
    old = model.get_submodule(name)
    for parent in list(model.modules()):
        for child, module in list(parent._modules.items()):
            if module is old:
                parent._modules[child] = layer
        if isinstance(parent, nn.TransformerEncoderLayer):
            parent.activation_relu_or_gelu = (
                0  # keeps torch from a fast path that reads dense weights
            )
    return model


def _is_conv1d_of_transformers(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return (
        type(module).__name__ == "Conv1D"
        and type(module).__module__.startswith("transformers.")
        and isinstance(weight, Tensor)
        and weight.ndim == 2
    )


def _shapes(given: Any) -> Any:
    leaves, _ = torch.utils._pytree.tree_flatten(given)
    return tuple(tuple(leaf.shape) if isinstance(leaf, Tensor) else None for leaf in leaves)
