"""`sg.sparse`: the fastest form of any model, captured whole or with its layers swapped."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.gates import check_finished, unwrapped
from sparsegate.graph import arguments_of, outputs
from sparsegate_runtime.engine import give_back

from .by_engine import as_choice, by_engine, faster_of, is_chain, is_finite
from .choice import Choice
from .engine_forward import EngineForward
from .modules import Swap, duplicated, sparse_form, stand_in, swapped
from .network import SparseNetwork, check_ordinary
from .network import sparse as sparse_network
from .trial import are_near, tried


def sparse(
    model: nn.Module,
    example: Any,
    *,
    batches: Sequence[int] | None = None,
    kernel: str | None = None,
    choices: Path | str | Sequence[Choice] | None = None,
    progress: Callable[[str], None] | None = None,
) -> nn.Module:
    """Returns a copy of a model for inference: each layer runs dense or sparse, as is faster here.

    >>> model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    >>> _ = model[0].weight.data.mul_(torch.rand(64, 64) < 0.05)
    >>> fast = sparse(model, torch.zeros(1, 64), kernel="dense")
    >>> fast(torch.zeros(3, 64)).shape
    torch.Size([3, 10])

    If possible, the model is captured and runs in one call of C. Otherwise the layers that get
    faster are replaced by sparse ones and the model's own code runs, so `generate`, hooks and
    outputs of any kind work as before. If no layer gets faster, the copy is dense. `print` shows
    what was chosen for each layer, and why.

    Args:
        model: the finished model; it is not changed.
        example: one batch of the model's inputs: a tensor, a tuple of arguments, or a dict of
            keyword arguments. Layers are timed on it, with torch's number of threads.
        batches: batch sizes to measure, for a captured network; any other batch uses the choices of
            the nearest size.
        kernel: one kernel for all layers that it can run: `chain`, `csr`, `triton`, `dense`,
            `packed`, `winograd`, `winograd8`; or `hardwired`, which compiles a whole small network
            to C code that contains its weights.
        choices: the choices of another network, or the file that `save_choices` wrote; nothing is
            measured then.
        progress: called with a sentence about each step, such as `progress=print`: planning a large
            network takes some seconds.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model is an nn.Module, got {type(model).__name__}; wrap it in one")
    check_finished(model)
    check_ordinary(model)
    if isinstance(vars(model).get("forward"), EngineForward):
        raise ValueError("the model has been made by sg.sparse already; pass the ordinary model")
    model = unwrapped(model)
    with torch.no_grad():
        args, kwargs = arguments_of(_arguments(example))  # a forward may change its inputs
    wanted, remembers = _tried(model, args, kwargs)
    asked = batches is not None or kernel is not None or choices is not None
    planned, reason = None, "its forward remembers earlier calls" if remembers else ""
    if not asked and not remembers:
        planned, reason = by_engine(model, args, kwargs, wanted, progress)
    give_back()  # planning takes more memory than running
    if planned is not None and not is_chain(planned):
        return planned
    if progress is not None:
        progress("measuring the layers, dense and sparse")
    is_tensor = isinstance(example, Tensor) or (planned is not None and len(args) == 1)
    if is_tensor and isinstance(args[0], Tensor) and not remembers:
        found = _of_tensor(model, args[0], batches, kernel, choices, reason)
    elif batches is None and choices is None:
        found = _swapped(model, args, kwargs, kernel, reason)
    else:
        raise ValueError(
            "batches and choices need a model that takes one tensor and remembers nothing of "
            "earlier calls, got another; leave them out"
        )
    return found if planned is None else faster_of(planned, found, args, kwargs)


def _of_tensor(
    model: nn.Module, example: Tensor, batches: Any, kernel: str | None, choices: Any, reason: str
) -> nn.Module:
    asked = batches is not None or kernel is not None or choices is not None
    if not asked and (not example.ndim or not is_finite(model)):
        return _swapped(model, (example,), {}, None, reason)
    try:
        captured = sparse_network(model, example, batches=batches, kernel=kernel, choices=choices)
    except Exception:  # capture does not know the model: its own code runs
        if asked:
            raise
        return _swapped(model, (example,), {}, None, reason)
    return captured if asked else _faster(model, example, captured, reason)


def _faster(model: nn.Module, example: Tensor, captured: SparseNetwork, reason: str) -> nn.Module:
    """The captured network, or the one with replaced layers if that is faster.

    Only networks with layers that torch runs although they could run sparse are compared.
    """
    run = {layer.name for choice in captured.choices for layer in choice.layers}
    layers = {
        name for name, module in captured.model.named_modules() if callable(sparse_form(module))
    }
    if layers <= run or example.device.type != "cpu":
        return captured
    other, report = _swap(model, (example,), {}, None, reason)
    if not any(change.kernel == "sparse" for change in report):
        return captured
    return faster_of(captured, other, (example,), {})


def _swapped(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    kernel: str | None,
    reason: str,
) -> nn.Module:
    if kernel not in (None, "chain", "dense"):
        raise ValueError(
            f"kernel={kernel!r} needs a model that is a chain of layers; this one runs by "
            "chain or dense"
        )
    return _swap(model, args, kwargs, kernel, reason)[0]


def _swap(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    kernel: str | None,
    reason: str,
) -> tuple[nn.Module, list[Swap]]:
    made, report, why = _made(model, args, kwargs, kernel)
    text = swap_table(report) if report else f"runs by torch: {why}"
    if report and reason:
        text += f"\nruns by the model's own code, not by the engine: {reason}"
    # An attribute of this module only: its class, and so the model's own code, stays the same.
    made.extra_repr = partial(str, text)  # type: ignore[method-assign]
    made.__dict__["sparsegate_choice"] = as_choice(report)
    return made, report


def _made(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], kernel: str | None
) -> tuple[nn.Module, list[Swap], str]:
    """The model with sparse layers; or a dense copy if that is impossible, and why."""
    why = "the model has no layer with a weight matrix" if kernel != "dense" else "kernel='dense'"
    try:
        if kernel != "dense":
            made, report = swapped(model, args, kwargs, force=kernel == "chain")
            if report and _agree(made, model, args, kwargs):
                return made, report, ""
            why = "it computes something else with sparse layers" if report else why
    except Exception as error:  # a model that works is never refused
        why = f"its layers cannot be exchanged ({type(error).__name__}: {error})"
    if kernel != "dense":
        warnings.warn(f"{type(model).__name__} runs by torch: {why}", stacklevel=5)
    return _dense_copy(model), [], why


def _dense_copy(model: nn.Module) -> nn.Module:
    made = duplicated(model).eval()
    return made if isinstance(made, torch.jit.ScriptModule) else made.requires_grad_(False)


def _agree(
    made: nn.Module, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    """Whether two models give the same for the example, to a thousandth of the largest output."""
    given = kwargs or args
    with torch.no_grad():  # with gradients, torch's own layers compute padding another way
        return are_near(outputs(stand_in(made), given), outputs(stand_in(model), given))


def swap_table(report: Sequence[Swap]) -> str:
    """A line for each layer: its zeros, its times, its kernel, and why torch runs it."""
    rows: list[tuple[str, ...]] = [("layer", "kind", "zeros", "torch", "ours", "runs by")]
    for change in report:
        times = [
            "" if time is None else f"{time:.3f} ms" for time in (change.dense_ms, change.sparse_ms)
        ]
        by = "torch" if change.kernel == "dense" else "sparse"
        why = f" ({change.reason})" if change.reason else ""
        rows.append((change.name, change.kind, f"{change.sparsity:.1%}", *times, by + why))
    widths = [max(len(row[index]) for row in rows) for index in range(5)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def choice_of(fast: nn.Module) -> Choice:
    """Returns what `sparse` chose for a model, for the first of the measured batch sizes."""
    if isinstance(fast, SparseNetwork):
        return fast.choices[0]
    found = fast.__dict__.get("sparsegate_choice")
    return found if isinstance(found, Choice) else as_choice([])


def _arguments(example: Any) -> Tensor | tuple[Any, ...] | dict[str, Any]:
    if isinstance(example, Tensor):
        return example
    if isinstance(example, Mapping):
        return dict(example)
    if isinstance(example, tuple | list):
        return tuple(example)
    raise ValueError(
        "expected one batch of the model's inputs: a tensor, a tuple of arguments or a dict of "
        f"keyword arguments; got {type(example).__name__}"
    )


def _tried(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Tensor], bool]:
    """The outputs for the example, and whether the model remembers earlier calls.

    Raises ValueError if it cannot run on the example.
    """
    try:
        with torch.no_grad():
            return tried(model, dict(kwargs) or args)
    except Exception as error:
        given = [*(_word(value) for value in args), *(f"{k}={_word(v)}" for k, v in kwargs.items())]
        first = str(error).splitlines()[0] if str(error) else ""
        raise ValueError(
            f"{type(model).__name__} does not run on the example {', '.join(given)} "
            f"({type(error).__name__}: {first}); pass one batch of its inputs: a tensor, a tuple "
            "of arguments or a dict of keyword arguments"
        ) from error


def _word(value: Any) -> str:
    """Describes an input in an error."""
    if isinstance(value, Tensor):
        return f"of shape {tuple(value.shape)} ({value.dtype}, {value.device})"
    return type(value).__name__
