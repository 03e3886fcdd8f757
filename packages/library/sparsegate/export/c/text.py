"""What the layers' C code has in common: the words of its arithmetic, and the machine that it meets."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from ..plan import Stage
from ..taps import Unit

PANEL = 16
"""Images of a panel."""


class Arithmetic(ABC):
    """How one layer computes: the types of its values, and how its numbers are written."""

    source: str
    """C type of what it reads."""
    target: str
    """C type of what it makes."""

    @abstractmethod
    def weights(self, unit: Unit) -> list[tuple[str, int]]:
        """A unit's weights as literals, each with from where on it reads."""

    @abstractmethod
    def bias(self, unit: Unit) -> str:
        """What a unit's sum begins with, as a literal."""

    @abstractmethod
    def put(self, place: str, value: str, unit: Unit, *, lanes: str) -> str:
        """The statement that makes a vector of sums into values and stores them."""

    @abstractmethod
    def pooling(self) -> dict[str, str]:
        """The words of a pooling: the type of its sum, the least value, a mean, and what is stored."""


class RowArithmetic(Arithmetic):
    """Arithmetic that also has vectors of neighbouring places of one image."""

    @abstractmethod
    def put_row(self, place: str, row: str, count: int, tile: int, unit: Unit) -> str:
        """The statement that makes a row of sums into values, the largest of each tile, and stores them."""


class Dialect(ABC):
    """The numbers that a network computes with."""

    words: str
    """C code that defines the words."""
    num_bytes: int
    """Of a value between layers."""
    vectors: bool
    """Whether it makes use of vectors."""

    @abstractmethod
    def arithmetic(self, number: int) -> Arithmetic:
        """How a layer computes."""

    @abstractmethod
    def load(self, first: Stage) -> str | None:
        """A function `load(x, y, p)` that brings `p` images to where the first layer reads, if that is elsewhere."""


def function(name: str, arithmetic: Arithmetic, body: list[str]) -> str:
    """A function from what a layer reads to what it makes."""
    head = f"PART void {name}(const {arithmetic.source} *x, {arithmetic.target} *y)"
    return "\n".join(
        [head, "{", "(void)x, (void)y; /* a layer may read nothing, or not be read */", *body, "}"]
    )


def words(lanes: str, template: str) -> str:
    """The words for vectors of so many lanes: a number, or nothing for the images of a panel."""
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
    """A function that copies images to where the first layer reads them."""
    (channels, height, width), layout = first.source.shape, first.source
    place = f"{layout.at(0, 0, 0)} + c * {layout.plane} + i * {layout.row} + j"
    return f"""PART void load(const float *x, {target} *y, int p)
{{
    for (int c = 0; c < {channels}; c++) for (int i = 0; i < {height}; i++) for (int j = 0; j < {width}; j++)
        for (int lane = 0; lane < p; lane++) {{
            const float value = x[((c * {height} + i) * {width} + j) * p + lane];
            y[({place}) * p + lane] = {value};
        }}
}}"""


ATTRIBUTES = """
#if defined(__GNUC__)
# define PART static __attribute__((__noinline__)) /* inlining would make functions too long to compile soon */
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
#define PANEL 1 /* images are computed one by one */
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
# define PANEL 1 /* without vectors, images are computed one by one, by the code for panels */
#endif
"""
)
