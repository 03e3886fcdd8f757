"""Reads a model as a network of one input of a batch, or says which operation cannot be written."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree

from sparsegate.export import check_finite
from sparsegate.gates import check_finished
from sparsegate.graph import Example, arguments_of, capture, copied, shrink
from sparsegate.runtime import translated
from sparsegate_runtime.engine import network as n

from .nodes import StatefulRecurrent
from .recurrent import recurrent_rules
from .reference import RULES, values_of

INPUT_KINDS = {"float32": "float", "int64": "int64_t"}


@dataclass(frozen=True, eq=False)
class ReadModel:
    """What C code is written from."""

    network: n.Network
    examples: tuple[tuple[Tensor, ...], ...]
    """The tensors of each input of the example, with a batch of one."""


@torch.no_grad()
def read(model: nn.Module, example: Example) -> ReadModel:
    """The network of a model in eval for one input, and the inputs of the example one by one.

    Raises:
        ValueError: the model cannot be captured, or has an operation that C code cannot have.

    """
    check_finished(model)
    model = copied(model).float().cpu().eval()
    check_finite(model)
    examples = split(example)
    given = _as_given(example, examples[0])
    graph = capture(_smaller(model, given), given)
    if graph.changed:
        raise ValueError(f"its forward changes {graph.changed[0]}; C code changes no weights")
    network, left = translated(graph, recurrent_rules())
    _check_known(network, left)
    if not all(isinstance(one, fx.Node) for one in graph.returned):
        raise ValueError("expected a model that returns tensors only; drop what else it returns")
    _check_sequence(network, example)
    _check_outputs(model, network, given, examples[0])
    return ReadModel(network, examples)


def _smaller(model: nn.Module, example: Any) -> nn.Module:
    """The model without dead units, as far as its forward can do without them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return shrink(model, example)
        except ValueError:  # its forward names the widths of its layers
            return model


def split(example: Example) -> tuple[tuple[Tensor, ...], ...]:
    """The inputs of a batch, each with a first dimension of one.

    >>> [len(one) for one in split((torch.zeros(3, 2), torch.ones(3, 5)))]
    [2, 2, 2]
    """
    leaves = _pytree.tree_leaves(example)
    if not leaves or not all(isinstance(one, Tensor) and one.ndim for one in leaves):
        raise ValueError(
            "example: expected tensors whose first dimension is the batch, got "
            f"{', '.join(type(one).__name__ for one in leaves) or 'nothing'}"
        )
    counts = {len(one) for one in leaves}
    if len(counts) > 1 or 0 in counts:
        raise ValueError(
            "example: expected tensors with the same first dimension, the batch, of at least one; "
            f"got {', '.join(str(tuple(one.shape)) for one in leaves)}"
        )
    found = [one.detach().cpu() for one in leaves]
    found = [one.float() if one.is_floating_point() else one for one in found]
    if not all(bool(one.isfinite().all()) for one in found):
        raise ValueError("example has values that are infinite or NaN; pass typical inputs")
    return tuple(tuple(one[at : at + 1] for one in found) for at in range(counts.pop()))


def _as_given(example: Example, leaves: Sequence[Tensor]) -> Any:
    """These tensors in the structure of the example."""
    return _pytree.tree_unflatten(list(leaves), _pytree.tree_structure(example))


def _check_known(network: n.Network, left: list[str]) -> None:
    if left:
        raise ValueError(
            f"{', '.join(sorted(set(left)))} cannot be written as C; replace it in the model, or "
            "export the model as ONNX"
        )
    for node in network.nodes:
        if isinstance(node, n.Input):
            if node.kind not in INPUT_KINDS:
                raise ValueError(
                    f"the input {node.name} is of type {node.kind}; C code takes "
                    f"{' and '.join(INPUT_KINDS)}"
                )
        elif type(node) not in RULES:
            raise ValueError(f"{type(node).__name__} {node.name} cannot be written as C")
        arrays = [getattr(node, name, None) for name in ("weight", "bias")]
        if any(isinstance(one, np.ndarray) and not np.isfinite(one).all() for one in arrays):
            raise ValueError(f"a number exceeds single precision in {node.name}; scale it down")


def _check_sequence(network: n.Network, example: Example) -> None:
    """Refuses sequences whose steps were taken for the inputs of a batch."""
    many = len(_pytree.tree_leaves(example)[0]) > 1
    for node in network.nodes:
        if many and isinstance(node, StatefulRecurrent) and node.inputs[0].shape[0] == 1:
            raise ValueError(
                f"{node.name} reads sequences of one step: the first dimension of the example is "
                "taken for the batch; put the batch first, by batch_first=True"
            )


def _check_outputs(
    model: nn.Module, network: n.Network, given: Any, leaves: tuple[Tensor, ...]
) -> None:
    """Compares what the nodes compute with the model."""
    args, kwargs = arguments_of(given)
    wanted = _pytree.tree_leaves(model(*args, **kwargs))
    values = values_of(network, leaves)
    for node, tensor in zip(network.outputs, wanted, strict=True):
        most = float(tensor.abs().max()) if tensor.numel() else 0.0
        if not torch.allclose(values[node], tensor, rtol=1e-4, atol=1e-4 * (most + 1e-6)):
            raise ValueError(
                f"{type(model).__name__} computes something else than its captured operations; its "
                "outputs must depend on its inputs and weights alone"
            )
