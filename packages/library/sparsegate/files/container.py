"""The container *.sparse.safetensors: an ordinary safetensors file."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from safetensors import SafetensorError

from sparsegate_runtime.atomic import write_atomically

from .cost import Cost
from .entry import FORMATS, Entry
from .format import Array, Plan
from .tensors import TYPES, bits_of, empty, type_name

ENDING = ".sparse.safetensors"
FORMAT, VERSION = "sparsegate", 1
Entries = dict[str, Entry]
MAX_ELEMENTS, MAX_DIMENSIONS = 2**48, 64
PART_TYPES = {"uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64"}
PARTS = {part for each in FORMATS.values() for part in each.parts}


def write(entries: Entries, same: dict[str, str], path: Path) -> None:
    """Writes a network, whole or not at all."""
    write_atomically(path, *_pieces(entries, same))


def encode_safetensors(entries: Entries, same: dict[str, str]) -> bytes:
    """The bytes of the file."""
    return b"".join(_pieces(entries, same))


def container_cost(entries: Entries, same: dict[str, str]) -> Cost:
    """The bits of the file that are neither values nor indices: its header."""
    return Cost(other=8 * len(_header(entries, same)))


def read(path: Path) -> tuple[Entries, dict[str, str]]:
    """The entries in a file, and the tied names."""
    path.open(
        "rb"
    ).close()  # a file that is missing, locked or a folder gives the error that everyone knows
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (
        SafetensorError,
        OverflowError,
        RuntimeError,
        TypeError,
    ) as error:  # the last two: torch on absurd shapes
        raise ValueError(f"{path} is not a safetensors file, or is damaged: {error}") from error
    try:
        return _network(about, arrays)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _pieces(entries: Entries, same: dict[str, str]) -> list[bytes | memoryview]:
    arrays = _arrays(entries).values()
    return [_header(entries, same), *(array.data.cast("B") for _, _, array in arrays if array.size)]


def _arrays(entries: Entries) -> dict[str, tuple[str, tuple[int, ...], Array]]:
    """Type, shape and bytes of every tensor of the file, wide types first, so that all are aligned, then by name."""
    found: dict[str, tuple[str, tuple[int, ...], Array]] = {}
    for name, entry in entries.items():
        _check_name(name, entries)
        for part, array in entry.parts.items():
            dense = entry.format.name == "dense"
            key = name if dense else f"{name}:{part}"
            if dense or array.size:
                kind = entry.dtype if part == "values" else PART_TYPES[str(array.dtype)]
                found[key] = (
                    kind,
                    entry.plan.shape if dense else array.shape,
                    np.ascontiguousarray(array),
                )
    return dict(sorted(found.items(), key=lambda item: (-item[1][2].itemsize, item[0])))


def _check_name(name: str, others: Entries) -> None:
    owner, _, part = name.rpartition(":")
    if name == "__metadata__" or (part in PARTS and owner in others):
        raise ValueError(f"the name {name} has a meaning of its own in the file; rename the tensor")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ValueError(f"the name {name!r} is not text; rename the tensor")


def _header(entries: Entries, same: dict[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": _metadata(entries, same)}
    begin = 0
    for name, (kind, shape, array) in _arrays(entries).items():
        header[name] = {
            "dtype": kind,
            "shape": shape,
            "data_offsets": [begin, begin + array.nbytes],
        }
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _metadata(entries: Entries, same: dict[str, str]) -> dict[str, str]:
    tensors: dict[str, Any] = {
        name: {
            "format": entry.format.name,
            "dtype": entry.dtype,
            "shape": entry.plan.shape,
            "kept": entry.plan.kept,
            **entry.plan.settings,
        }
        for name, entry in entries.items()
        if entry.format.name != "dense"
    }
    tensors |= {name: {"same": other} for name, other in same.items()}
    return {
        "format": FORMAT,
        "version": str(VERSION),
        "tensors": json.dumps(tensors, separators=(",", ":")),
    }


def _network(
    about: dict[str, str], arrays: dict[str, torch.Tensor]
) -> tuple[Entries, dict[str, str]]:
    if about.get("format") != FORMAT:
        raise ValueError(f"its format is {about.get('format')!r}, wanted {FORMAT!r}")
    if about.get("version") != str(VERSION):
        raise ValueError(
            f"its version is {about.get('version')!r}, this reads {VERSION}; update sparsegate"
        )
    described = _described(about.get("tensors", ""))
    same = {name: str(each["same"]) for name, each in described.items() if "same" in each}
    sparse = {name: each for name, each in described.items() if "same" not in each}
    entries = {name: _entry(name, each, arrays) for name, each in sparse.items()}
    for name, tensor in arrays.items():
        if name in described:
            raise ValueError(f"{name} is there twice")
        owner, _, part = name.rpartition(":")
        if part in PARTS and owner in sparse:
            raise ValueError(
                f"{owner} has the part {part}, which is none of the format {sparse[owner]['format']}"
            )
        _check_shape(name, tuple(tensor.shape))
        entries[name] = _dense_entry(tensor)
    for name, other in same.items():
        if other not in entries:
            raise ValueError(f"{name} is tied to {other}, which is not there")
    return entries, same


def _described(text: str) -> dict[str, dict[str, Any]]:
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"its metadata cannot be read: {error}") from error
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        raise ValueError("its metadata is not a table of tensors")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError(
            f"a name stands twice in its metadata: {sorted(name for name, _ in pairs)[:9]}"
        )
    return dict(pairs)


def _entry(name: str, about: dict[str, Any], arrays: dict[str, torch.Tensor]) -> Entry:
    """The entry that a description and its parts make; takes the parts out of the arrays."""
    known = {"format", "dtype", "shape", "kept"}
    settings = {key: value for key, value in about.items() if key not in known}
    kind, dtype, shape, kept = (
        str(about.get("format")),
        str(about.get("dtype")),
        about.get("shape"),
        about.get("kept"),
    )
    if kind not in FORMATS or kind == "dense" or dtype not in TYPES:
        raise ValueError(f"{name} has the unknown format {kind!r} or type {dtype!r}")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{name} has the shape {shape!r}, wanted a list of sizes")
    _check_shape(name, tuple(shape))
    if type(kept) is not int or not 0 <= kept <= prod(shape):
        raise ValueError(f"{name} keeps {kept!r} of {prod(shape)} elements")
    names = {part: f"{name}:{part}" for part in FORMATS[kind].parts}
    parts = {
        part: _array(name, part, dtype, arrays.pop(key))
        for part, key in names.items()
        if key in arrays
    }
    parts.setdefault("values", bits_of(empty(dtype, (0,))))
    return Entry(FORMATS[kind], dtype, Plan(tuple(shape), kept, settings), parts)


def _check_shape(name: str, shape: tuple[int, ...]) -> None:
    """Refuses shapes that torch cannot make, an empty tensor's with a product that overflows among them."""
    if len(shape) > MAX_DIMENSIONS or prod(max(1, size) for size in shape) > MAX_ELEMENTS:
        raise ValueError(f"{name} has the absurd shape {shape!r}")


def _dense_entry(tensor: torch.Tensor) -> Entry:
    bits = bits_of(tensor.contiguous())
    return Entry(
        FORMATS["dense"],
        type_name(tensor),
        Plan(tuple(tensor.shape), int(np.count_nonzero(bits))),
        {"values": bits},
    )


def _array(name: str, part: str, dtype: str, tensor: torch.Tensor) -> Array:
    """A part: indices as they are, values as the whole numbers of their bits."""
    if tensor.ndim == 1 and part == "values" and type_name(tensor) == dtype:
        return bits_of(tensor)
    if tensor.ndim == 1 and part != "values" and type_name(tensor) in PART_TYPES.values():
        return tensor.numpy()
    raise ValueError(
        f"{name}:{part} has the type {tensor.dtype} and the shape {tuple(tensor.shape)}"
    )
