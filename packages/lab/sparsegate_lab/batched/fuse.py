"""Fuses convolution, 2x2 max pooling and ReLU into one operation."""

from __future__ import annotations

from torch import fx, nn
from torch.nn import functional as F

from sparsegate.graph import unchecked

from .layers import ManyConv2d, ManyLinear
from .unfolded import fits_unfolding


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, ManyConv2d | ManyLinear) or super().is_leaf_module(
            m, module_qualified_name
        )


def fuse_pools(model: nn.Module) -> nn.Module:
    """Returns the model with `relu(max_pool2d(conv(x), 2))` in one step; layers are shared.

    A model that cannot be traced, or has no such place, comes back as it is.
    """
    try:
        with unchecked():
            graph = _Tracer().trace(model)
    except (fx.proxy.TraceError, TypeError):
        return model
    found = [node for node in graph.nodes if _is_pooled(node, model)]
    for node in found:
        pool = next(iter(node.users))
        relu = next(iter(pool.users))
        relu.replace_all_uses_with(node)
        graph.erase_node(relu)
        graph.erase_node(pool)
        model.get_submodule(str(node.target)).pooled = True  # type: ignore[assignment]
    return fx.GraphModule(model, graph) if found else model


def _is_pooled(node: fx.Node, model: nn.Module) -> bool:
    if node.op != "call_module" or not isinstance(
        layer := model.get_submodule(str(node.target)), ManyConv2d
    ):
        return False
    pools, calls = list(node.users), [each for each in model.modules() if each is layer]
    if len(pools) != 1 or len(calls) != 1 or not fits_unfolding(*layer.options):
        return False
    relus = list(pools[0].users)
    return (
        _halves(pools[0])
        and len(relus) == 1
        and relus[0].target is F.relu
        and not relus[0].kwargs.get("inplace")
    )


def _halves(node: fx.Node) -> bool:
    """Whether a node is exactly `max_pool2d(x, 2)`."""
    plain = {
        "stride": None,
        "padding": 0,
        "dilation": 1,
        "ceil_mode": False,
        "return_indices": False,
    }
    said = {**dict(zip(("kernel_size", *plain), node.args[1:], strict=False)), **node.kwargs}
    size = said.pop("kernel_size", None)
    return (
        node.target is F.max_pool2d
        and bool(size == 2)
        and all(plain.get(name) == said[name] for name in said)
    )
