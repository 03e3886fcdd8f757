"""Shows a network file as a table: its inputs and outputs, and what every node does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsegate_runtime.engine import Function, KeptArray

from .network import Network, TensorInfo
from .sketch import OperationRecord

WEIGHTS = ("weight", "table", "value")


def table(network: Network) -> str:
    """The whole network, a line for every node.

    Args:
        network: a network that was read from a file.

    """
    sketch = network.sketch
    lines = [
        f"size    {one.name}: {_range(one)}, {one.example} when saved" for one in sketch.symbols
    ]
    lines += [f"input   {_info(one)}" for one in network.inputs]
    lines += [f"output  {_info(one)}" for one in network.outputs]
    rows = [("node", "kind", "reads", "weight", "kept", "settings")]
    tensors = list(sketch.tensors.items())
    for index, record in enumerate(sketch.records):
        reads = ", ".join(map(str, record.reads))
        rows.append(
            (str(index), _kind(record), reads, *_weight(record, tensors), _settings(record))
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join([*lines, "", *(_line(row, widths) for row in rows)])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)]
    return "  ".join(cells).rstrip()


def _range(symbol: Any) -> str:
    return f"{symbol.least} to {symbol.most}" if symbol.most else f"at least {symbol.least}"


def _info(info: TensorInfo) -> str:
    return f"{info.name}: {info.type} [{', '.join(map(str, info.shape))}]"


def _kind(record: OperationRecord) -> str:
    if record.kind == "function":
        return Function(record.fields["function"][0]).name.lower().replace("_", " ")
    return record.kind


def _weight(record: OperationRecord, tensors: Sequence[tuple[str, Any]]) -> tuple[str, str]:
    """The shape of the weight of a node, and which share of it is kept."""
    number = next((record.fields[name] for name in WEIGHTS if name in record.fields), None)
    if number is None or record.kind == "pad":
        return "", ""
    array = tensors[number][1]
    shape = " x ".join(map(str, array.shape)) or "scalar"
    kept = array.num_kept if isinstance(array, KeptArray) else int(np.count_nonzero(array))
    return shape, f"{kept / max(1, array.size):.1%}"


def _settings(record: OperationRecord) -> str:
    fields = record.fields
    if record.kind == "input":
        return str(fields["name"])
    if record.kind in ("conv", "pool", "transposed conv"):
        names = ("kernel", "stride", "padding", "dilation", "groups")
        found = [(name, fields[name]) for name in names if name in fields]
        return ", ".join(f"{name} {_plain(value)}" for name, value in found)
    if record.kind == "attention" and fields["causal"]:
        return "causal"
    others = ("dimension", "dimensions", "groups")
    return ", ".join(f"{name} {_plain(fields[name])}" for name in others if name in fields)


def _plain(value: Sequence[int]) -> str:
    """Numbers next to each other, once if they are all the same."""
    whole = list(value)
    return str(whole[0]) if len(set(whole)) == 1 else " ".join(map(str, whole))
