"""The interface of an arithmetic (fp32, int8), and C text that all layers share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

import numpy as np

from ..plan import Stage
from ..taps import OutputUnit

PANEL = 16
"""Images of a panel: their values are interleaved, so a vector holds one value of each."""


class Arithmetic(ABC):
    """How one layer computes: the C types of its values, and its numbers as C literals."""

    source: str
    """C type of the layer's inputs."""
    target: str
    """C type of the layer's outputs."""

    @abstractmethod
    def weights(self, unit: OutputUnit) -> list[tuple[str, int]]:
        """A unit's weights as literals, each with the offset of the input that it multiplies."""

    @abstractmethod
    def bias(self, unit: OutputUnit) -> str:
        """The initial value of a unit's sum, as a literal."""

    @abstractmethod
    def put(self, address: str, value: str, unit: OutputUnit, *, lanes: str) -> str:
        """The statement that converts a vector of sums to outputs and stores them at `address`."""

    @abstractmethod
    def pooling(self) -> dict[str, str]:
        """The C text of a pool: type of the sum, smallest value, mean, and the value to store."""


class RowArithmetic(Arithmetic):
    """Arithmetic that also has vectors of neighboring pixels of one image."""

    @abstractmethod
    def put_row(self, address: str, row: str, count: int, tile: int, unit: OutputUnit) -> str:
        """The statement that stores the largest sum of each tile of a row at `address`."""


class Dialect(ABC):
    """The type of number that a network computes with."""

    macros: str
    """C code that defines the macros of the arithmetic."""
    num_bytes: int
    """Size of a value between layers."""
    vectors: bool
    """Whether it uses vectors."""

    @abstractmethod
    def arithmetic(self, number: int) -> Arithmetic:
        """How a layer computes."""

    @abstractmethod
    def load(self, first: Stage) -> str | None:
        """A function `load(x, y, p)` that copies `p` images to the first layer, if needed."""


def function(name: str, arithmetic: Arithmetic, body: list[str]) -> str:
    """A C function from a layer's inputs `x` to its outputs `y`."""
    head = f"PART void {name}(const {arithmetic.source} *x, {arithmetic.target} *y)"
    return "\n".join(
        [head, "{", "(void)x, (void)y; /* a layer without weights does not use them */", *body, "}"]
    )


def macros_for(lanes: str, template: str) -> str:
    """The macros for vectors of this many lanes; an empty string means the images of a panel."""
    return template.replace("@L", lanes or "LANES").replace("@", lanes)


def named(text: str, name: str) -> str:
    """Code with the network's name in place of NAME.

    >>> named("NAME_one(x[NAME_INPUTS])", "lenet")
    'lenet_one(x[LENET_INPUTS])'
    """
    for macro in ("INPUTS", "OUTPUTS", "H"):
        text = re.sub(rf"\bNAME_{macro}\b", f"{name.upper()}_{macro}", text)
    return text.replace("NAME", name)


def loading(first: Stage, target: str, value: str) -> str:
    """A C function that copies images to the first layer's input."""
    (channels, height, width), layout = first.source.shape, first.source
    index = f"{layout.at(0, 0, 0)} + c * {layout.plane} + i * {layout.row} + j"
    return f"""PART void load(const float *x, {target} *y, int p)
{{
    for (int c = 0; c < {channels}; c++)
    for (int i = 0; i < {height}; i++) for (int j = 0; j < {width}; j++)
        for (int lane = 0; lane < p; lane++) {{
            const float value = x[((c * {height} + i) * {width} + j) * p + lane];
            y[({index}) * p + lane] = {value};
        }}
}}"""


def c_float(value: float) -> str:
    """The shortest C literal that reads back as the same single-precision number.

    >>> c_float(0.1), c_float(-2.0)
    ('0.1f', '-2.0f')
    """
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        raise ValueError(
            f"expected a number of single precision, got {value:g}; scale the weights down"
        )
    short = np.format_float_positional(number, unique=True, trim="0")
    tiny = np.format_float_scientific(number, unique=True, trim="0")
    return f"{min(short, tiny, key=len)}f"


ATTRIBUTES = """
#if defined(__GNUC__)
/* Inlining the parts of a layer would take very long to compile. */
# define PART static __attribute__((__noinline__))
# define INLINE static inline __attribute__((__always_inline__, __unused__))
# define ALIGNED __attribute__((__aligned__(64)))
#else
# define PART static
# define INLINE static inline
# define ALIGNED
#endif
"""

PLAIN = (
    ATTRIBUTES
    + """
#define LANES 1
#define PANEL 1 /* one image at a time */
"""
)

MACHINE = (
    ATTRIBUTES
    + """
#if defined(SPARSEGATE_PLAIN) || !defined(__GNUC__)
# define LANES 1
#elif defined(__AVX512F__)
# define LANES 16
#elif defined(__AVX__)
# define LANES 8
#elif defined(__SSE2__) || defined(__ARM_NEON)
# define LANES 4
#else
# define LANES 1
#endif
#if LANES > 1
# define PANEL 16
# define VECTOR(n) __attribute__((__vector_size__(n)))
# define LOOSE(n) __attribute__((__vector_size__(n), __aligned__(1), __may_alias__))
#else
# define PANEL 1 /* without vectors, the code for panels computes one image at a time */
#endif
"""
)
