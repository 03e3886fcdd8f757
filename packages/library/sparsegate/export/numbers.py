"""Numbers in C."""

from __future__ import annotations

import numpy as np


def c_float(value: float) -> str:
    """The shortest literal that gives back the same single-precision number.

    >>> c_float(0.1), c_float(-2.0)
    ('0.1f', '-2.0f')
    """
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        raise ValueError(
            f"{value:g} is no number of single precision, so it cannot be exported; scale the network down"
        )
    short = np.format_float_positional(number, unique=True, trim="0")
    tiny = np.format_float_scientific(number, unique=True, trim="0")
    return f"{min(short, tiny, key=len)}f"
