"""Reads and writes *.sparse.safetensors, which are valid safetensors files."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from sparsegate_runtime.atomic import write_atomically

from .cost import Cost
from .entry import FORMATS, Entry
from .format import Description
from .types import TYPES, Array, Shape, bits_type, check_shape, num_bytes

ENDING = ".sparse.safetensors"
FORMAT, VERSION = "sparsegate", "1"
METADATA = {"format", "version", "tensors", "crc32"}
MAX_HEADER = 10**8
"""Bytes of the longest header, as in the safetensors package."""
PART_TYPES = {"uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64"}
PARTS = {part for kind in FORMATS.values() for part in kind.parts}
Entries = dict[str, Entry]
Stored = tuple[str, Shape, Array]
"""Type, shape and bits of a tensor of the file."""


def write_safetensors(entries: Entries, tied: dict[str, str], path: Path) -> None:
    """Writes a network to a file. An interrupted write leaves no partial file."""
    write_atomically(path, *_pieces(entries, tied))


def encode_safetensors(entries: Entries, tied: dict[str, str]) -> bytes:
    """The bytes of the file."""
    return b"".join(_pieces(entries, tied))


def header_cost(entries: Entries, tied: dict[str, str]) -> Cost:
    """The bits of the file's header."""
    return Cost(other=8 * len(_header(entries, _arrays(entries), tied)))


def read_safetensors(path: Path) -> tuple[Entries, dict[str, str]]:
    """The entries of a file, and its tied names, each with the name of its entry.

    The parts of the entries are not yet checked: see `Entry.check`.
    """
    with path.open("rb") as file:
        raw = np.fromfile(file, np.uint8)
    try:
        stored, metadata = _read_stored(raw)
        return _network(metadata, stored)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _pieces(entries: Entries, tied: dict[str, str]) -> list[bytes | memoryview]:
    arrays = _arrays(entries)
    data = [array.data.cast("B") for _, _, array in arrays.values() if array.size]
    header = _header(entries, arrays, tied)
    return [signed(header, data), *data]


def _arrays(entries: Entries) -> dict[str, Stored]:
    """The tensors of the file: wide types first, so that all are aligned, then by name."""
    found: dict[str, Stored] = {}
    for name, entry in entries.items():
        _check_name(name, entries)
        if entry.format.name == "dense":
            values = np.ascontiguousarray(entry.parts["values"])
            found[name] = (entry.dtype, entry.shape, values)
            continue
        for part, array in entry.parts.items():
            if array.size:
                dtype = entry.dtype if part == "values" else PART_TYPES[str(array.dtype)]
                found[f"{name}:{part}"] = (dtype, array.shape, np.ascontiguousarray(array))
    return dict(sorted(found.items(), key=lambda item: (-item[1][2].itemsize, item[0])))


def _check_name(name: str, others: Entries) -> None:
    owner, _, part = name.rpartition(":")
    if name == "__metadata__" or (part in PARTS and owner in others):
        raise ValueError(f"the file reserves the name {name}; rename the tensor")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ValueError(f"the name {name!r} is not valid Unicode text; rename the tensor")


def _header(entries: Entries, arrays: dict[str, Stored], tied: dict[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": _metadata(entries, tied)}
    begin = 0
    for name, (dtype, shape, array) in arrays.items():
        offsets = [begin, begin + array.nbytes]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _metadata(entries: Entries, tied: dict[str, str]) -> dict[str, str]:
    tensors: dict[str, Any] = {
        name: {
            "format": entry.format.name,
            "dtype": entry.dtype,
            "shape": entry.shape,
            "kept": entry.description.kept,
            **entry.description.settings,
        }
        for name, entry in entries.items()
        if entry.format.name != "dense"
    }
    tensors |= {name: {"same": owner} for name, owner in tied.items()}
    text = json.dumps(tensors, separators=(",", ":"))
    return {"format": FORMAT, "version": VERSION, "tensors": text, "crc32": UNSIGNED}


def _read_stored(raw: Array) -> tuple[dict[str, Stored], dict[str, str]]:
    """The tensors of a safetensors file as views of its bytes, and its metadata."""
    length = int.from_bytes(raw[:8].tobytes(), "little")
    if len(raw) < 8 or length > min(MAX_HEADER, len(raw) - 8):
        raise ValueError("it is not a safetensors file, or is truncated")
    text = raw[8 : 8 + length].tobytes()
    header = _json_object(text, "header")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(text, str) for text in metadata.values()
    ):
        raise ValueError("the __metadata__ of its header must be an object of strings")
    if "crc32" in metadata:  # files of version 0.1 have none
        check_signature(raw, text)
    data = raw[8 + length :]
    spans = {name: _span(name, about) for name, about in header.items()}
    _check_spans(spans, len(data))
    stored: dict[str, Stored] = {}
    for name, (begin, end) in spans.items():
        dtype, shape = header[name]["dtype"], tuple(header[name]["shape"])
        part_type = np.dtype(f"<{TYPES[dtype]}") if dtype in PART_TYPES.values() else None
        array = data[begin:end].view(part_type or bits_type(dtype))
        stored[name] = (dtype, shape, array if array.flags.aligned else array.copy())
    return stored, metadata


def _json_object(text: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text.decode(), object_pairs_hook=_unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"its {what} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"its {what} must be a JSON object, got {type(value).__name__}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        names = sorted(name for name, _ in pairs)[:9]
        raise ValueError(f"a name appears twice in its header or metadata, among {names}")
    return dict(pairs)


def _span(name: str, about: Any) -> tuple[int, int]:
    """Where a tensor's bytes begin and end; raises ValueError unless its description is sound."""
    if not isinstance(about, dict) or set(about) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name} must have dtype, shape and data_offsets in the header")
    dtype, offsets = about["dtype"], about["data_offsets"]
    if not isinstance(dtype, str) or dtype not in TYPES:
        raise ValueError(f"{name} has the unknown type {dtype!r}; known are {', '.join(TYPES)}")
    shape = _shape(name, about["shape"])
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"{name} must have two data_offsets, got {str(offsets)[:200]}")
    begin, end = offsets
    if end - begin != num_bytes(dtype, shape):
        raise ValueError(f"{name} must have {num_bytes(dtype, shape)} bytes, got {end - begin}")
    return begin, end


def _check_spans(spans: dict[str, tuple[int, int]], length: int) -> None:
    """Raises ValueError unless the tensors follow each other without a gap, up to the end."""
    reached = 0
    for name, (begin, end) in sorted(spans.items(), key=lambda item: item[1]):
        if begin != reached:
            raise ValueError(f"{name} must begin at byte {reached} of the data, got {begin}")
        reached = end
    if reached != length:
        raise ValueError(
            f"its tensors must take {length} bytes, the rest of the file, got {reached}"
        )


def _shape(name: str, shape: Any) -> Shape:
    if not _are_sizes(shape):
        raise ValueError(f"{name} must have a list of sizes as shape, got {str(shape)[:200]}")
    check_shape(name, tuple(shape))
    return tuple(shape)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)


def _network(metadata: dict[str, str], stored: dict[str, Stored]) -> tuple[Entries, dict[str, str]]:
    described = _descriptions(metadata)
    tied = {name: str(about["same"]) for name, about in described.items() if "same" in about}
    sparse = {name: about for name, about in described.items() if "same" not in about}
    entries = {name: _sparse_entry(name, about, stored) for name, about in sparse.items()}
    for name, tensor in stored.items():  # the rest is dense
        if name in described:
            raise ValueError(f"{name} is there twice")
        owner, _, part = name.rpartition(":")
        if part in PARTS and owner in sparse:
            kind = sparse[owner]["format"]
            raise ValueError(f"{owner} has the part {part}, which the format {kind} does not have")
        entries[name] = _dense_entry(*tensor)
    for name, owner in tied.items():
        if owner not in entries:
            raise ValueError(f"{name} is tied to {owner}, which is not in the file")
    return entries, tied


def _descriptions(metadata: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What the metadata say of every sparse or tied tensor."""
    found, version = metadata.get("format"), metadata.get("version")
    if found != FORMAT:
        raise ValueError(f"its format is {found!r}, expected {FORMAT!r}")
    if version != VERSION:
        raise ValueError(f"its version is {version!r}, expected {VERSION!r}; update sparsegate")
    if unknown := sorted(set(metadata) - METADATA):
        raise ValueError(f"its metadata has the unknown entry {unknown[0][:40]!r}")
    described = _json_object(metadata.get("tensors", "").encode(), "metadata")
    if not all(isinstance(about, dict) for about in described.values()):
        raise ValueError("its metadata must have a JSON object for every tensor")
    return described


def _dense_entry(dtype: str, shape: Shape, array: Array) -> Entry:
    bits = array.view(bits_type(dtype))
    description = Description(shape, int(np.count_nonzero(bits)))
    return Entry(FORMATS["dense"], dtype, description, {"values": bits})


def _sparse_entry(name: str, about: dict[str, Any], stored: dict[str, Stored]) -> Entry:
    """The entry of a description and its parts, which are removed from `stored`."""
    known = ("format", "dtype", "shape", "kept")
    settings = {key: value for key, value in about.items() if key not in known}
    kind, dtype, kept = str(about.get("format")), str(about.get("dtype")), about.get("kept")
    if kind not in FORMATS or kind == "dense" or dtype not in TYPES:
        raise ValueError(f"{name} has the unknown format {kind!r} or type {dtype!r}")
    shape = _shape(name, about.get("shape"))
    if type(kept) is not int or not 0 <= kept <= prod(shape):
        raise ValueError(f"{name} keeps {str(kept)[:40]} of {prod(shape)} elements")
    parts: dict[str, Array] = {"values": np.zeros(0, bits_type(dtype))}
    for part in FORMATS[kind].parts:
        if (key := f"{name}:{part}") in stored:
            parts[part] = _part(name, part, dtype, stored.pop(key))
    return Entry(FORMATS[kind], dtype, Description(shape, kept, settings), parts)


def _part(name: str, part: str, dtype: str, stored: Stored) -> Array:
    found, shape, array = stored
    expected = (dtype,) if part == "values" else tuple(PART_TYPES.values())
    if len(shape) != 1 or found not in expected:
        raise ValueError(
            f"{name}:{part} must be one-dimensional, of type {' or '.join(expected)}, "
            f"got {found} of shape {shape}"
        )
    return array.view(bits_type(dtype)) if part == "values" else array


UNSIGNED = "0" * 8
"""What stands for the checksum while it is computed."""
# A quotation mark inside of a JSON string is escaped, so no name or text can look like this.
SIGNATURE = re.compile(rb'"crc32":"([0-9a-f]{8})"')


def signed(header: bytes, data: Iterable[bytes | memoryview]) -> bytes:
    """The header with the CRC-32 of the file in the place of `UNSIGNED`.

    Args:
        header: the length and the text of the header, with one unsigned checksum.
        data: the bytes of the tensors.
    """
    (found,) = SIGNATURE.finditer(header)
    code = zlib.crc32(header)
    for piece in data:
        code = zlib.crc32(piece, code)
    return header[: found.start(1)] + f"{code:08x}".encode() + header[found.end(1) :]


def check_signature(raw: Array, header: bytes) -> None:
    """Raises ValueError unless the checksum of a file that has one matches.

    Args:
        raw: the bytes of the file.
        header: the text of the header, which begins after eight bytes.
    """
    found = SIGNATURE.search(header)
    if found is None:
        raise ValueError("it is damaged: its checksum is not eight hexadecimal digits")
    begin, end = 8 + found.start(1), 8 + found.end(1)
    code = zlib.crc32(UNSIGNED.encode(), zlib.crc32(raw[:begin].data))
    if f"{zlib.crc32(raw[end:].data, code):08x}".encode() != found[1]:
        raise ValueError("it is damaged: its content does not match its checksum")
