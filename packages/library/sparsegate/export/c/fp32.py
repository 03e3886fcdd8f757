"""Arithmetic in single precision."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan import Stage
from ..taps import OutputUnit
from .text import Dialect, RowArithmetic, c_float, loading, macros_for

VECTORS = """
typedef float vec@ VECTOR(4 * @L);
typedef float raw@ LOOSE(4 * @L);
#define SPLAT@(b) ((b) - (vec@){0})
#define MAC@(a, w, p) ((a) += (w) * *(const raw@ *)(const void *)(p))
#define KEEP@(p, a) (*(raw@ *)(void *)(p) = (a))
INLINE void max@(vec@ *a, const vec@ *b)
{
    for (int i = 0; i < @L; i++) (*a)[i] = (*a)[i] > (*b)[i] ? (*a)[i] : (*b)[i];
}
#define MAX@(a, b) max@(&(a), &(b))
#define PUT@(p, a) KEEP@(p, a)
#define PUT_RELU@(p, a) do { vec@ zero = SPLAT@(0.0f); MAX@(zero, a); KEEP@(p, zero); } while (0)
"""

SCALAR = """
typedef float vec@;
#define SPLAT@(b) (b)
#define MAC@(a, w, p) ((a) += (w) * *(p))
#define KEEP@(p, a) (*(p) = (a))
#define MAX@(a, b) ((a) = (a) > (b) ? (a) : (b))
#define PUT@(p, a) KEEP@(p, a)
#define PUT_RELU@(p, a) KEEP@(p, 0.0f > (a) ? 0.0f : (a))
"""

ROWS = """
INLINE void put_row(float *p, const float *r, int count, int tile)
{
    for (int i = 0; i < count; i++) {
        float best = r[i * tile];
        for (int j = 1; j < tile; j++) best = best > r[i * tile + j] ? best : r[i * tile + j];
        p[i] = best;
    }
}
INLINE void put_row_relu(float *p, const float *r, int count, int tile)
{
    for (int i = 0; i < count; i++) {
        float best = 0.0f;
        for (int j = 0; j < tile; j++) best = best > r[i * tile + j] ? best : r[i * tile + j];
        p[i] = best;
    }
}
"""

MACROS = "\n".join(
    [
        "typedef float acc;",
        "#if LANES > 1",
        macros_for("1", SCALAR),
        *(macros_for(lanes, VECTORS) for lanes in ("", "8", "4")),
        ROWS,
        "#else",
        macros_for("", SCALAR),
        "#endif",
    ]
)


@dataclass(frozen=True)
class Fp32Layer(RowArithmetic):
    """Values, weights and sums in single precision."""

    relu: bool
    source: str = "float"
    target: str = "float"

    def weights(self, unit: OutputUnit) -> list[tuple[str, int]]:
        """A unit's weights as literals."""
        return [(c_float(weight), at) for weight, at in unit.taps]

    def bias(self, unit: OutputUnit) -> str:
        """The initial value of a unit's sum."""
        return c_float(unit.bias)

    def put(self, address: str, value: str, unit: OutputUnit, *, lanes: str) -> str:  # noqa: ARG002
        """Stores a vector, after a ReLU if the layer has one."""
        return f"PUT{self._relu.upper()}{lanes}({address}, {value});"

    def put_row(self, address: str, row: str, count: int, tile: int, unit: OutputUnit) -> str:  # noqa: ARG002
        """Stores the largest of each tile of a row, after a ReLU if the layer has one."""
        return f"put_row{self._relu}({address}, {row}, {count}, {tile});"

    def pooling(self) -> dict[str, str]:
        """The C text of a pool."""
        return {
            "acc": "float",
            "least": "-HUGE_VALF",
            "divided": "sum / (float)count",
            "result": "sum",
        }

    @property
    def _relu(self) -> str:
        return "_relu" if self.relu else ""


@dataclass(frozen=True, eq=False)
class Fp32(Dialect):
    """All numbers in single precision."""

    stages: list[Stage]
    macros: str = MACROS
    num_bytes: int = 4
    vectors: bool = True

    def arithmetic(self, number: int) -> Fp32Layer:
        """How a layer computes."""
        return Fp32Layer(self.stages[number].layer.relu)

    def load(self, first: Stage) -> str | None:
        """Copies images into a border of zeros, if the first layer has padding."""
        return loading(first, "float", "value") if first.source.border != (0, 0) else None
