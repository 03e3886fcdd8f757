"""Puts a checksum of the whole file into the header of a safetensors file, and compares it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

from .types import Array

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
