"""Replaces in-place operations of a captured graph by operations that make a new tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

if TYPE_CHECKING:
    from torch.export import ExportedProgram

RETURNS_ITSELF = ("dropout", "feature_dropout", "alpha_dropout", "type_as")
"""Operators that may return their input although their schema does not say so."""


def functional(program: ExportedProgram) -> ExportedProgram:
    """The program without in-place operations.

    Most of them change a tensor that has no views, so that later readers can read the result
    instead. For a program with any others, torch's own functionalisation runs; it takes several
    times as long.
    """
    before: set[fx.Node] = set()
    for node in list(program.graph.nodes):
        if writes(node) and not _replace_(node, program.graph, before):
            decomposed: ExportedProgram = program.run_decompositions({})
            return decomposed
        before.add(node)
    return program


def writes(node: fx.Node) -> bool:
    """Whether a node changes one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(
        argument.alias_info is not None and argument.alias_info.is_write
        for argument in schema.arguments
    )


def _replace_(node: fx.Node, graph: fx.Graph, before: set[fx.Node]) -> bool:
    """Replaces an in-place operation, in place, unless other names of its tensor are about."""
    changed, operator = node.args[0], _out_of_place(node.target)
    if operator is None or not isinstance(changed, fx.Node) or not _keeps_type(node, changed):
        return False
    if _may_share(changed) or any(_may_share(user) for user in changed.users if user in before):
        return False
    with graph.inserting_before(node):
        made = graph.call_function(operator, node.args, dict(node.kwargs))
    made.meta = node.meta
    before.add(made)
    changed.replace_all_uses_with(made, delete_user_cb=lambda user: user not in before)
    node.replace_all_uses_with(made)
    graph.erase_node(node)
    return True


def _out_of_place(target: Any) -> Any:
    """The operator that makes a new tensor, such as `relu` for `relu_`; None if there is none."""
    name = target._schema.name.partition("::")[2]
    if not name.endswith("_"):
        return None
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    return getattr(packet, target._overloadname, None)


def _keeps_type(node: fx.Node, changed: fx.Node) -> bool:
    """Whether the new tensor has the old one's type: in-place operations never widen it."""
    types = {getattr(given.meta.get("val"), "dtype", None) for given in node.all_input_nodes}
    return types == {getattr(changed.meta.get("val"), "dtype", None)}


def _may_share(node: fx.Node) -> bool:
    """Whether a node's result may share memory with what the node reads."""
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.name.partition("::")[2] in RETURNS_ITSELF:
        return True
    return any(argument.alias_info is not None for argument in schema.arguments)
