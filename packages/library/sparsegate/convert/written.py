"""Writes a network that was read from another program's file, for any batch if it holds for any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsegate_runtime.engine import network as n
from sparsegate_runtime.network_file import Capture, DiffersError, Symbol, sketch_of, write

BATCHES = (2, 3)
"""Batch sizes for which a network of any batch is read; what differs depends on the batch."""


@dataclass(frozen=True)
class Converted:
    """What was written."""

    num_bytes: int
    num_operations: int


def written(
    source: Path,
    target: Path,
    network: Callable[[int], n.Network],
    *,
    any_batch: bool,
    outputs: Sequence[str],
) -> Converted:
    """Writes a network file.

    Args:
        source: the file that is read, for messages.
        target: the file to write.
        network: the network for a size of the batch.
        any_batch: whether the batch varies, according to the file.
        outputs: the names of the outputs.

    Raises:
        ValueError: the network cannot be built; the message begins with the source.

    """
    try:
        captures, symbols = _captures(network, any_batch=any_batch)
        first = captures[0].network
        inputs = [one.name for one in first.inputs]
        sketch = sketch_of(captures, symbols, inputs=inputs, outputs=outputs)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    except Exception as error:  # sizes that do not fit raise whatever they come upon
        raise ValueError(
            f"{source} cannot be converted: its operations do not fit each other ({error})"
        ) from error
    write(sketch, target)
    return Converted(target.stat().st_size, len(first.nodes))


def _captures(
    network: Callable[[int], n.Network], *, any_batch: bool
) -> tuple[list[Capture], list[Symbol]]:
    """The network for several batches, or for one if its batch is fixed."""
    if not any_batch:
        return [Capture(network(1), {})], []
    captures = [Capture(network(size), {"batch": size}) for size in BATCHES]
    symbols = [Symbol("batch", example=1)]
    try:
        sketch_of(captures, symbols)
    except DiffersError:  # it holds for one batch only
        return [Capture(network(1), {})], []
    return captures, symbols
