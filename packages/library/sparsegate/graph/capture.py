"""Captures what a model computes, by torch.export, as a graph of typed nodes."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from jaxtyping import config
from torch import Tensor, nn
from torch.utils import _pytree

from .graph import Graph
from .program import CapturedProgram

if TYPE_CHECKING:
    from torch.export import ExportedProgram
from typing import TYPE_CHECKING

from torch import fx

Example: TypeAlias = Tensor | tuple[Any, ...] | Mapping[str, Any]
"""What a model takes: one input, a tuple of inputs, or inputs by keyword."""


@torch.no_grad()
def capture(model: nn.Module, example: Example, *, any_batch: bool = False) -> Graph:
    """The operations of a model in eval, as one graph.

    >>> graph = capture(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.zeros(1, 2))
    >>> [type(node).__name__ for node in graph.nodes], graph.nodes[-1].shape
    (['Input', 'Linear', 'Pointwise'], (1, 3))

    Args:
        model: any model; it is left as it was.
        example: its input; several as a tuple, by keyword as a dict.
        any_batch: capture for any batch size, which takes about twice as long. The example has at
            least two inputs then, as torch.export takes a single one for a fixed number.

    Raises:
        ValueError: the model does not run on the example, or torch.export cannot capture it, as
            when its forward branches on the values of the input.

    Forward hooks are captured with what they compute; the graph does not call them again.

    """
    args, kwargs = arguments_of(example)
    with evaluating(model), unchecked(), _without_autocast(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = _exported(model, args, kwargs, any_batch=any_batch)
        changed = _changed_buffers(program)
        program = functional(program)
    return CapturedProgram(model, program).graph(changed)


def arguments_of(example: Example) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Fresh positional and keyword arguments, which a model may change in place."""
    if isinstance(example, Mapping):
        return (), dict(_pytree.tree_map_only(Tensor, torch.clone, dict(example)))
    given = example if isinstance(example, tuple) else (example,)
    return tuple(_pytree.tree_map_only(Tensor, torch.clone, given)), {}


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Puts a model into eval, and its modules back into their modes."""
    modes = {module: module.training for module in model.modules()}
    with contextlib.suppress(NotImplementedError):  # what torch.export made has one mode
        model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Switches jaxtyping's checks off: symbolic sizes are not the integers that it expects."""
    disabled = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", disabled)


@contextlib.contextmanager
def _without_autocast() -> Iterator[None]:
    """Switches autocast off, whose casts would become operations of the graph."""
    with contextlib.ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


def _exported(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, any_batch: bool
) -> ExportedProgram:
    from torch.export import export

    sizes = _any_first_size(kwargs or args) if any_batch else None
    _know_caches()
    with torch.random.fork_rng(devices=()), _without_logs():
        try:
            return export(model, args, kwargs, dynamic_shapes=sizes, strict=False)
        except Exception as error:
            check_runs(model, args, kwargs)
            raise ValueError(
                f"{type(model).__name__} cannot be captured by torch.export "
                f"({_first_line(error)}); its forward must not branch on the values of its input"
            ) from error


@contextlib.contextmanager
def _without_logs() -> Iterator[None]:
    """Keeps torch from printing the traceback of an error that this module raises in words."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = disabled


def _know_caches() -> None:
    """Tells torch.export how to take apart the caches that transformers' models give back."""
    if "transformers" in sys.modules:
        with contextlib.suppress(ImportError):
            from transformers.integrations.executorch import register_dynamic_cache_export_support

            register_dynamic_cache_export_support()  # type: ignore[no-untyped-call]
            _know_pairs_of_caches()


def _know_pairs_of_caches() -> None:
    """Registers transformers' caches with two parts: the decoder's own keys, and the encoder's."""
    from torch.fx import _pytree as fx_pytree
    from transformers import EncoderDecoderCache

    def parts(cache: Any) -> list[Any]:
        return [cache.self_attention_cache, cache.cross_attention_cache]

    if EncoderDecoderCache in _pytree.SUPPORTED_NODES:
        return
    _pytree.register_pytree_node(
        EncoderDecoderCache,
        lambda cache: (parts(cache), None),
        lambda found, _: EncoderDecoderCache(*found),
        serialized_type_name=f"{EncoderDecoderCache.__module__}.{EncoderDecoderCache.__name__}",
        flatten_with_keys_fn=lambda cache: (
            [(_pytree.SequenceKey(index), part) for index, part in enumerate(parts(cache))],
            None,
        ),
    )
    fx_pytree.register_pytree_flatten_spec(EncoderDecoderCache, lambda cache, _: parts(cache))


def _any_first_size(given: Any) -> Any:
    """For torch.export: the first dimension of every tensor may change."""
    from torch.export import Dim

    return _pytree.tree_map(
        lambda value: {0: Dim.AUTO} if isinstance(value, Tensor) and value.ndim else None, given
    )


def check_runs(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Runs the model on the example; raises ValueError if it cannot."""
    try:
        model(*args, **kwargs)
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} does not run on the example ({_first_line(error)}); pass a "
            "batch of its inputs, a tuple if it takes several, a dict if it takes them by keyword"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _changed_buffers(program: ExportedProgram) -> tuple[str, ...]:
    """The buffers and parameters that a forward writes to."""
    signature = program.graph_signature
    owned = {**signature.inputs_to_buffers, **signature.inputs_to_parameters}
    written = [str(node.args[0]) for node in program.graph.nodes if writes(node)]
    return tuple(dict.fromkeys(owned[name] for name in written if name in owned))


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
