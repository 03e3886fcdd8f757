"""Damages .sg and .safetensors files with knowledge of their structure."""

from __future__ import annotations

import json
import zlib
from random import Random
from typing import Any

from sparsegate_runtime.files.sg.bytestream import varint

from .bytes_changes import PLAIN, Change
from .json_changes import ODD, changed_value

SIZES = (
    *(0, 1, 2, 127, 128, 255, 512, 513, 4096, 2**16, 2**20, 2**24, 2**31, 2**32, 2**40),
    *(2**47, 2**61),
)


def edited(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """One value in the header becomes another, or in the description of a tensor in it."""
    end = header_end(file)
    header = json.loads(file[8:end])
    about = header.get("__metadata__")
    if isinstance(about, dict) and "tensors" in about and draw.random() < 0.6:
        about["tensors"] = json.dumps(changed_value(draw, json.loads(about["tensors"])))
    else:
        header = changed_value(draw, header)
    return assembled(header, file[end:])


def swapped(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """Two tensors of the file change places, names or descriptions."""
    end = header_end(file)
    header = json.loads(file[8:end])
    names = [name for name in header if name != "__metadata__"]
    if len(names) >= 2:
        one, two = draw.sample(names, 2)
        every = ("data_offsets", "shape", "dtype")
        for key in every[: draw.randrange(1, 4)]:
            header[one][key], header[two][key] = header[two][key], header[one][key]
    return assembled(header, file[end:])


def crossed(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """The header of one file and the tensors of another."""
    other = draw.choice(others)
    return file[: header_end(file)] + other[header_end(other) :]


def inflated(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """A length or count near the beginning becomes a number of several bytes, or an absurd one."""
    place = draw.randrange(3, max(4, min(len(file), 120)))
    return file[:place] + varint(draw.choice(SIZES)) + file[place + draw.randrange(3) :]


def bomb(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """A few bytes that describe huge tensors, in version 2 or 3."""
    rows, columns = draw.choice(SIZES), draw.choice(SIZES)
    count, lanes = draw.choice((1, 1, 3, 50)), draw.choice((1, 4, 4096))
    kept = draw.choice((1, rows, rows * columns, rows * columns - 1)) % 2**50
    order = draw.choice((b"", b"\0\0", b"\2\5\2\5"))
    side = varint(draw.choice((2, 3, 4))) + order + varint(2 * kept + draw.randrange(2))
    if draw.random() < 0.5:
        shapes = b"".join(
            bytes([2, 16, 65 + index]) + varint(rows) + varint(2 * columns + 1)
            for index in range(count)
        )
        head = b"sg\3" + varint(lanes) + varint(count) + shapes + varint(0) + side * count
    else:
        names = b"".join(
            varint(2) + bytes([65 + index // 26, 65 + index % 26, 11, 2])
            + varint(rows) + varint(columns)
            for index in range(count)
        )  # fmt: skip
        head = b"sg\2" + varint(lanes) + varint(0) + varint(count) + names
        head += varint(0) + side * count
    return head + draw.randbytes(4 * lanes) + draw.randbytes(draw.choice((0, 2, 40))) + bytes(4)


def random_header(draw: Random, file: bytes, others: list[bytes]) -> bytes:
    """A header of odd values, before tensors that are whole."""
    return assembled(
        {"weight": draw.choice(ODD), "few": draw.choice(ODD)}, file[header_end(file) :]
    )


SAFETENSORS: tuple[Change, ...] = (*PLAIN, edited, edited, edited, swapped, crossed, random_header)
SG: tuple[Change, ...] = (*PLAIN, inflated, inflated, bomb)


def signed(content: bytes) -> bytes:
    """An .sg file with a right checksum, so that what is behind it is tried too."""
    return content[:-4] + zlib.crc32(content[:-4]).to_bytes(4, "little")


def header_end(file: bytes) -> int:
    """Where the header of a safetensors file ends."""
    return 8 + int.from_bytes(file[:8], "little")


def assembled(header: Any, data: bytes) -> bytes:
    """A safetensors file of a header and the bytes of its tensors."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data
