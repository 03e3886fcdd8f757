"""Puts the graph and the weights of a network into one file, and takes them apart again."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.engine import KeptArray, smaller
from sparsegate_runtime.files import (
    TYPES,
    Array,
    Elements,
    Entry,
    bits_type,
    decode_sg,
    encode_sg,
)

from .graph_bytes import encode_graph, read_graph
from .sketch import Sketch

NAME, VERSION = b"sgn", 1
HEAD, MOST_GRAPH = 16, 2**24
DTYPES = {
    np.dtype(numpy): name for name, numpy in TYPES.items() if name in ("F32", "I64", "BOOL", "I32")
}


def encode(sketch: Sketch) -> bytes:
    """The bytes of a file."""
    entries = {name: _entry(tensor) for name, tensor in sketch.tensors.items()}
    weights, _ = encode_sg(entries, {})
    graph = encode_graph(sketch)
    if len(graph) > MOST_GRAPH:
        raise ValueError(f"a graph has at most {MOST_GRAPH:,} bytes, got {len(graph):,}")
    lengths = len(graph).to_bytes(4, "little") + len(weights).to_bytes(8, "little")
    head = NAME + bytes([VERSION]) + lengths + graph
    return head + zlib.crc32(head).to_bytes(4, "little") + weights


def write(sketch: Sketch, path: Path | str) -> None:
    """Writes a file. An interrupted write leaves no partial file."""
    write_atomically(Path(path), encode(sketch))


def decode(raw: bytes | memoryview, *, limit: int | None = None) -> Sketch:
    """The network of a file's bytes.

    Args:
        raw: the whole file.
        limit: the most bytes of dense tensors to allow.

    Raises:
        ValueError: the file is damaged, truncated, or of a later version.

    """
    graph, weights = _parts(raw)
    if bytes(weights[:3]) != b"sg\x03":
        raise ValueError("its weights are not an .sg file of version 3")
    tensors, tied = decode_sg(weights, _tensor, limit=limit)
    if tied:
        raise ValueError(
            f"its tensor {next(iter(tied))!r} is tied to another; expected each tensor once"
        )
    found = read_graph(graph, list(tensors))
    return Sketch(found.symbols, found.records, found.outputs, tensors)


def _parts(raw: bytes | memoryview) -> tuple[bytes, memoryview]:
    """The bytes of the graph and of the weights, after all checks of the file around them."""
    view = memoryview(raw)
    if bytes(view[:3]) != NAME or len(view) < HEAD + 4:
        begin = bytes(view[:3]).hex() or "nothing"
        raise ValueError(f"it begins with {begin}: it is not an .sgn file, or it is truncated")
    if view[3] != VERSION:
        raise ValueError(
            f"it is an .sgn file of version {view[3]}, expected {VERSION}; update sparsegate"
        )
    length = int.from_bytes(view[4:8], "little")
    num_weights = int.from_bytes(view[8:16], "little")
    if length > MOST_GRAPH or HEAD + length + 4 + num_weights != len(view):
        wanted = HEAD + length + 4 + num_weights
        raise ValueError(f"it has {len(view)} bytes, expected {wanted}: it is truncated or damaged")
    end = HEAD + length
    if zlib.crc32(view[:end]).to_bytes(4, "little") != bytes(view[end : end + 4]):
        raise ValueError("the checksum of its graph is wrong: it is damaged")
    return bytes(view[HEAD:end]), view[end + 4 :]


def _entry(tensor: Any) -> Entry:
    array = np.ascontiguousarray(np.asarray(tensor))
    dtype = DTYPES[array.dtype]
    flat = array.reshape(-1).view(bits_type(dtype))
    return Entry.cheapest(Elements(flat, array.shape), dtype)


def _tensor(dtype: str, shape: tuple[int, ...], where: Array, bits: Array) -> Any:
    """A tensor of the file: floats without their zeros where that takes less memory."""
    if dtype not in DTYPES.values():
        raise ValueError(
            f"it holds a tensor of type {dtype}, expected {', '.join(DTYPES.values())}"
        )
    values = bits.view(f"<{TYPES[dtype]}") if dtype != "BOOL" else bits != 0
    if dtype == "F32" and len(shape) > 1:
        return smaller(KeptArray.at(shape, where, np.ascontiguousarray(values)))
    dense = np.zeros(shape, values.dtype)
    dense.reshape(-1)[where] = values
    return dense
