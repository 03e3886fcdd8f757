"""Writes a model as a network file, which runs without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree

from sparsegate.gates import check_finished, unwrapped
from sparsegate.graph import Graph, capture
from sparsegate_runtime.engine import network as n
from sparsegate_runtime.network_file import (
    Capture,
    DiffersError,
    Network,
    Sketch,
    Symbol,
    sketch_of,
    write,
)

from .network import check_ordinary
from .save_axes import BATCH, LENGTH, Axis, axes_of, sized
from .save_names import input_names, output_names
from .translate import translated

CLOSE = 1e-3
"""The largest difference from the model's outputs, as a share of their largest."""


@dataclass(frozen=True)
class SavedNetwork:
    """What `save_network` wrote. `print` shows its size, its inputs and its outputs."""

    path: Path
    num_bytes: int
    graph_bytes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fixed: Mapping[str, str]
    """Sizes that were to vary but are fixed in the file, each with the reason."""

    def __str__(self) -> str:
        lines = [
            f"{self.path}: {self.num_bytes:,} bytes, of which the graph takes {self.graph_bytes:,}",
            *(f"input   {one}" for one in self.inputs),
            *(f"output  {one}" for one in self.outputs),
            *(f"the {name} is fixed: {why}" for name, why in self.fixed.items()),
        ]
        return "\n".join(lines)


def save_network(
    model: nn.Module,
    example: Any,
    path: Path | str,
    *,
    varying: Sequence[str] = (BATCH, LENGTH),
) -> SavedNetwork:
    """Writes a finished model as an `.sgn` file: its operations, shapes and weights.

        sg.save_network(model, torch.zeros(1, 3, 224, 224), "net.sgn")

    The file runs without PyTorch, by `sparsegate_runtime.Network.load("net.sgn")` or the command
    `sparsegate-run`. It holds no code. The network is run from the file and compared with the
    model before anything is written.

    Args:
        model: the finished model; it is not changed.
        example: one batch of the model's inputs: a tensor, a tuple of arguments, or a dict of
            keyword arguments.
        path: the file.
        varying: the sizes that may differ from the example's when the file runs, where the model
            allows it: `batch` and `length`. The length is the number of tokens or steps, the
            second dimension of indices, or the second or third of a tensor of three dimensions.
            If the model has constants as long as the example, such as embeddings of positions, the
            length can be at most that of the example.

    Returns:
        The sizes of the file, its inputs and outputs, and why sizes are fixed that were to vary.

    Raises:
        ValueError: the model cannot be captured, the engine does not have one of its operations,
            or the file does not compute what the model does. Nothing is written.

    """
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"model must be an nn.Module, got {type(model).__name__}; wrap it in a module"
        )
    unknown = set(varying) - {BATCH, LENGTH}
    if isinstance(varying, str) or unknown:
        raise ValueError(f"varying must be a tuple of {BATCH!r} and {LENGTH!r}, got {varying!r}")
    check_finished(model)
    check_ordinary(model)
    saving = _Saving(unwrapped(model), _given(example))
    sketch = saving.sketch(varying)
    network = Network(sketch)
    write(sketch, path)
    return SavedNetwork(
        path=Path(path),
        num_bytes=Path(path).stat().st_size,
        graph_bytes=int.from_bytes(Path(path).read_bytes()[4:8], "little"),
        inputs=tuple(_words(one) for one in network.inputs),
        outputs=tuple(_words(one) for one in network.outputs),
        fixed=saving.fixed,
    )


def _words(info: Any) -> str:
    return f"{info.name}: {info.type} [{', '.join(map(str, info.shape))}]"


def _given(example: Any) -> Any:
    """The example as a tuple or a dict."""
    if isinstance(example, Tensor):
        return (example,)
    if isinstance(example, Mapping):
        return dict(example)
    if isinstance(example, tuple | list):
        return tuple(example)
    raise ValueError(
        "expected one batch of the model's inputs: a tensor, a tuple of arguments or a dict of "
        f"keyword arguments; got {type(example).__name__}"
    )


class _Saving:
    """A model, and what was found out about it."""

    def __init__(self, model: nn.Module, given: Any) -> None:
        self.model, self.given = model, given
        self.fixed: dict[str, str] = {}
        self._known: dict[tuple[torch.Size, ...], tuple[n.Network, Graph]] = {}
        self.leaves = [one for one in _pytree.tree_leaves(given) if isinstance(one, Tensor)]
        if not self.leaves:
            raise ValueError("the example holds no tensor; pass one batch of the model's inputs")
        others = [
            one.dtype
            for one in [*model.parameters(), *model.buffers(), *self.leaves]
            if one.is_floating_point() and one.dtype != torch.float32
        ]
        if others:
            raise ValueError(
                f"a network file computes in float32, got {others[0]}; call model.float() and pass "
                "a float32 example"
            )

    def sketch(self, varying: Sequence[str]) -> Sketch:
        """The network with as many varying sizes as the model allows."""
        best: Sketch | None = None
        axes: list[Axis] = []
        for name in (BATCH, LENGTH):
            if name not in varying:
                continue
            for axis in axes_of(name, self.leaves):
                try:
                    best = self._varied([*axes, axis])
                except (DiffersError, _NotTheSameError) as error:
                    self.fixed[name] = str(error)
                    continue
                axes.append(axis)
                self.fixed.pop(name, None)
                break
        return best or self._checked([self.captured({})], [])

    def _varied(self, axes: Sequence[Axis]) -> Sketch:
        """The network with these sizes varying; raises an error if they cannot."""
        base = {axis.name: axis.sizes[0] for axis in axes}
        tried = [base, *({**base, axis.name: axis.sizes[1]} for axis in axes)]
        by_name = {axis.name: axis for axis in axes}
        captures = [self.captured(sizes, by_name) for sizes in tried]
        symbols = [Symbol(axis.name, example=axis.example) for axis in axes]
        other = {axis.name: axis.sizes[2] for axis in axes}
        return self._checked(captures, symbols, by_name, [other])

    def captured(
        self, sizes: Mapping[str, int], axes: Mapping[str, Axis] | None = None
    ) -> tuple[Capture, Graph]:
        """The engine's network for the example with these sizes."""
        given = sized(self.given, sizes, axes or {})
        shapes = tuple(one.shape for one in _pytree.tree_leaves(given) if isinstance(one, Tensor))
        if shapes not in self._known:  # an export takes most of the time
            self._known[shapes] = self._exported(given, varied=bool(sizes))
        network, graph = self._known[shapes]
        return Capture(network, sizes), graph

    def _exported(self, given: Any, *, varied: bool) -> tuple[n.Network, Graph]:
        try:
            graph = capture(self.model, given)
        except (ValueError, RuntimeError) as error:
            if varied:
                raise _NotTheSameError(f"the model does not take other sizes ({error})") from error
            raise
        if graph.changed:
            raise ValueError(
                f"the model's forward changes {graph.changed[0]}; a network file cannot do that"
            )
        network, left = translated(graph)
        if left:
            raise ValueError(_left_to_torch(graph, left))
        return network, graph

    def _checked(
        self,
        captures: Sequence[tuple[Capture, Graph]],
        symbols: Sequence[Symbol],
        axes: Mapping[str, Axis] | None = None,
        others: Sequence[Mapping[str, int]] = (),
    ) -> Sketch:
        """The network, after it computed what the model does."""
        graph = captures[0][1]
        inputs = input_names(self.given)
        sketch = sketch_of(
            [capture for capture, _ in captures],
            symbols,
            inputs=[inputs[one.index] for one in captures[0][0].network.inputs],
            outputs=output_names(graph),
        )
        network = Network(sketch, limit=2**62)
        numbers = [one.index for one in captures[0][0].network.inputs]
        for sizes in ({}, *others):
            given = sized(self.given, sizes, axes or {})
            self._compare(network, given, numbers, sizes)
        return sketch

    def _compare(
        self, network: Network, given: Any, numbers: Sequence[int], sizes: Mapping[str, int]
    ) -> None:
        leaves = _pytree.tree_leaves(given)
        with torch.no_grad():
            wanted = _outputs(self.model, given)
        try:
            found = network(*(leaves[number].numpy() for number in numbers))
        except ValueError as error:
            if sizes:
                raise _NotTheSameError(f"other sizes do not fit ({error})") from error
            raise
        made = found if isinstance(found, tuple) else (found,)
        if len(made) != len(wanted):
            raise ValueError(f"the model returns {len(wanted)} tensors, but the file {len(made)}")
        for one, other in zip(made, wanted, strict=True):
            if not _is_near(one, other):
                words = "the file would compute something else than the model"
                raise _NotTheSameError(f"{words} for other sizes") if sizes else ValueError(words)


class _NotTheSameError(ValueError):
    """The model computes something else for inputs of other sizes."""


def _outputs(model: nn.Module, given: Any) -> list[Tensor]:
    was = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        out = model(**given) if isinstance(given, dict) else model(*given)
    finally:
        for module, mode in was:
            module.training = mode
    return [one for one in _pytree.tree_leaves(out) if isinstance(one, Tensor)]


def _is_near(made: Any, wanted: Tensor) -> bool:
    other = wanted.detach().numpy()
    if made.shape != other.shape:
        return False
    if made.dtype != np.float32:
        return bool(np.array_equal(made, other))
    finite = other[np.isfinite(other)]
    slack = CLOSE * float(np.abs(finite).max()) if finite.size else 0.0
    return bool(np.allclose(made, other, rtol=0, atol=slack, equal_nan=True))


def _left_to_torch(graph: Graph, left: Sequence[str]) -> str:
    """What to say of operators that the engine does not have, with the modules that call them."""
    found: dict[str, list[str]] = {name: [] for name in left}
    for node in graph.operations.nodes:
        name = str(node.target)
        if name in found and node.op == "call_function":
            stack = list(node.meta.get("nn_module_stack", {"": ("", None)}).values())
            path = str(stack[-1][0]).partition("@")[0] if stack else ""
            if path not in found[name]:
                found[name].append(path)
    words = [
        f"{name}" + (f" in {', '.join(paths[:3])}" if any(paths) else "")
        for name, paths in found.items()
    ]
    return (
        f"the engine cannot run {'; '.join(words)}; a network file needs all of a model's "
        "operations: replace these, or leave them to the program that calls the network"
    )
