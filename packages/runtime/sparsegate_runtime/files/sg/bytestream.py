"""Codes integers and texts as bytes."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DIGITS = 9


def varint(number: int) -> bytes:
    """An integer in base 128, lowest digit first.

    >>> varint(300).hex()
    'ac02'
    """
    digits = bytearray()
    while number >= 128:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)


@dataclass
class ByteReader:
    """Reads integers and texts from bytes, from the first to the last."""

    raw: bytes | memoryview
    position: int = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if count > len(self.raw) - self.position:
            raise ValueError(
                f"it ends at byte {len(self.raw)}, expected {count} more at byte {self.position}"
            )
        self.position += count
        return bytes(self.raw[self.position - count : self.position])

    def varint(self, most: int = 2**62) -> int:
        """The next integer, which is at most `most`."""
        number = 0
        for digit_number in range(MAX_DIGITS):
            (digit,) = self.take(1)
            number |= (digit & 127) << 7 * digit_number
            if digit < 128:
                break
        if number > most or digit >= 128:
            raise ValueError(f"the number {number} before byte {self.position} is more than {most}")
        return number

    def text(self, most: int = 4096) -> str:
        """The next text, which has its length before it."""
        try:
            return self.take(self.varint(most)).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"the text before byte {self.position} is not UTF-8") from error
