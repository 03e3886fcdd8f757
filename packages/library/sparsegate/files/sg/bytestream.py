"""Whole numbers and texts in a row of bytes."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DIGITS = 9


def varint(number: int) -> bytes:
    """A number in base 128, lowest digit first.

    >>> varint(300).hex()
    'ac02'
    """
    digits = bytearray()
    while number >= 128:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def text(value: str) -> bytes:
    """A text with its length before it."""
    raw = value.encode()
    return varint(len(raw)) + raw


@dataclass
class ByteReader:
    """Takes numbers and texts out of bytes, from the first to the last."""

    raw: bytes
    place: int = 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count > len(self.raw) - self.place:
            raise ValueError(
                f"it ends at byte {len(self.raw)}, {count} more were wanted at byte {self.place}"
            )
        self.place += count
        return self.raw[self.place - count : self.place]

    def varint(self, most: int = 2**62) -> int:
        """The next number, which is at most `most`."""
        number = 0
        for place in range(MAX_DIGITS):
            (digit,) = self.take(1)
            number |= (digit & 127) << 7 * place
            if digit < 128:
                break
        if number > most or digit >= 128:
            raise ValueError(f"the number {number} before byte {self.place} is more than {most}")
        return number

    def text(self, most: int = 4096) -> str:
        """The next text."""
        try:
            return self.take(self.varint(most)).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"the text before byte {self.place} is not UTF-8") from error
