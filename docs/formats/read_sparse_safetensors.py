"""Reads *.sparse.safetensors files with numpy alone: read(path) returns a dictionary of arrays.

It is short and needs only numpy, so that it is easy to port. It trusts the file; sparsegate.load
checks everything. numpy lacks bfloat16, which is returned as float32, and float8, which is
returned as bytes.
"""

import json

import numpy as np

TYPES = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "F8_E4M3": "u1",
    "F8_E5M2": "u1",
    "U16": "u2",
    "I16": "i2",
    "F16": "f2",
    "BF16": "u2",
    "U32": "u4",
    "I32": "i4",
}
TYPES |= {"F32": "f4", "U64": "u8", "I64": "i8", "F64": "f8", "C64": "c8"}


def read(path):
    """Returns all tensors of a file, by name."""
    with open(path, "rb") as file:
        raw = file.read()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    about = header.pop("__metadata__")
    assert (about["format"], about["version"]) == ("sparsegate", "1")
    stored = {}
    for name, info in header.items():
        begin, end = (8 + length + offset for offset in info["data_offsets"])
        array = np.frombuffer(raw[begin:end], "<" + TYPES[info["dtype"]])
        stored[name] = array.reshape(info["shape"])
    entries = json.loads(about["tensors"])
    tensors = {}
    for name, entry in entries.items():
        if "same" not in entry:
            tensors[name] = widened(decode(name, entry, stored), entry["dtype"])
    for name, array in stored.items():  # decode has removed the parts of sparse tensors
        tensors[name] = widened(array, header[name]["dtype"])
    for name, entry in entries.items():
        if "same" in entry:
            tensors[name] = tensors[entry["same"]]
    return tensors


def decode(name, entry, stored):
    """Decodes one tensor and removes its parts from the stored arrays."""
    take = lambda part, kind="<u1": stored.pop(f"{name}:{part}", np.zeros(0, kind))
    values = take("values", "<" + TYPES[entry["dtype"]])
    out = np.zeros(int(np.prod(entry["shape"])), values.dtype)
    if entry["format"] == "bitmap":
        out[bits(take("mask"))[: out.size] == 1] = values
    elif entry["format"] == "gaps":
        marked = positions(take("quotients"), take("remainders"), entry["rice"])
        chosen = np.full(out.size, entry["of"] == "removed")
        chosen[marked] = entry["of"] == "kept"
        out[chosen] = values
    elif entry["format"] == "rows":
        counts, columns = take("counts"), take("columns")
        width = out.size // max(1, len(counts))
        out[np.repeat(np.arange(len(counts)), counts) * width + columns.astype(np.int64)] = values
    return out.reshape(entry["shape"])


def positions(quotients, remainders, rice):
    """Decodes the indices of marked elements: unary quotients, and remainders in bit planes."""
    ends = np.flatnonzero(bits(quotients))
    gaps = (np.diff(ends, prepend=-1) - 1) << rice
    for bit, plane in enumerate(remainders.reshape(rice, -1) if rice else ()):
        gaps += bits(plane)[: len(gaps)].astype(np.int64) << bit
    return np.cumsum(gaps + 1) - 1


def bits(array):
    """Unpacks bytes to bits, the lowest bit first."""
    return np.unpackbits(array, bitorder="little")


def widened(array, kind):
    """Converts bfloat16 to float32; other types are unchanged."""
    return (array.astype("<u4") << 16).view("<f4") if kind == "BF16" else array
