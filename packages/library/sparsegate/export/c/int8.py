"""Arithmetic in 8-bit integers: values and weights of 8 bits, sums of 32 bits."""

from __future__ import annotations

from dataclasses import dataclass

from ..int8_scales import Scale
from ..layer import Layer
from ..numbers import c_float
from ..plan import Stage
from ..taps import Unit
from .int8_words import WORDS
from .text import Arithmetic, Dialect, loading

LARGEST_WEIGHT = 127
LARGEST_SUM = 2**31 - 1
LARGEST_BIAS = 2**30


@dataclass(frozen=True)
class Int8Layer(Arithmetic):
    """A layer that reads and makes values of 8 bits, or, if it is the last, makes floats."""

    layer: Layer
    reads: Scale
    makes: Scale | None
    """None for the last layer."""

    @property
    def source(self) -> str:  # type: ignore[override]
        """C type of what it reads."""
        return self.reads.c_type

    @property
    def target(self) -> str:  # type: ignore[override]
        """C type of what it makes."""
        return self.makes.c_type if self.makes else "float"

    def weights(self, unit: Unit) -> list[tuple[str, int]]:
        """A unit's weights as whole numbers, without those that round to zero."""
        step = self._step(unit)
        numbers = [(round(weight / step), at) for weight, at in unit.taps]
        return [(str(number), at) for number, at in numbers if number]

    def bias(self, unit: Unit) -> str:
        """What a unit's sum begins with, in steps of its weights times steps of its input."""
        largest = sum(abs(int(number)) for number, _ in self.weights(unit)) * self.reads.largest
        bias = round(unit.bias / (self._step(unit) * self.reads.step))
        if largest + abs(bias) > LARGEST_SUM:
            raise ValueError(
                f"unit {unit.index} adds up {len(unit.taps):,} weights, too many for a sum of 32 bits"
            )
        return str(bias)

    def put(self, place: str, value: str, unit: Unit, *, lanes: str) -> str:
        """Stores a sum as a value of 8 bits, which clips and so rectifies them, or as floats."""
        return f"PUT_{self._word}{lanes}({place}, {value}, {self._factor(unit)});"

    def pooling(self) -> dict[str, str]:
        """The words of a pooling, which keeps the steps of what it reads."""
        mean = "(sum >= 0 ? sum + count / 2 : sum - count / 2) / count"
        result = "sum" if self.makes else f"((float)sum * {c_float(self.reads.step)})"
        return {"acc": "int", "least": "-128", "divided": mean, "result": result}

    @property
    def _word(self) -> str:
        if self.makes:
            return self.makes.letter.upper()
        return "F_RELU" if self.layer.relu else "F"

    def _step(self, unit: Unit) -> float:
        """What one step of a unit's weights is worth; each unit has its own, and room for its bias."""
        weight = max((abs(weight) for weight, _ in unit.taps), default=0.0)
        return (
            max(weight / LARGEST_WEIGHT, abs(unit.bias) / (self.reads.step * LARGEST_BIAS)) or 1.0
        )

    def _factor(self, unit: Unit) -> str:
        return c_float(
            self._step(unit) * self.reads.step / (self.makes.step if self.makes else 1.0)
        )


@dataclass(frozen=True, eq=False)
class Int8(Dialect):
    """Values and weights of 8 bits, with steps from an example."""

    stages: list[Stage]
    scales: list[Scale]
    """Of the input, and of what every layer but the last makes."""
    words: str = WORDS
    num_bytes: int = 1
    vectors: bool = False

    def arithmetic(self, number: int) -> Int8Layer:
        """How a layer computes."""
        makes = self.scales[number + 1] if number + 1 < len(self.scales) else None
        return Int8Layer(self.stages[number].layer, self.scales[number], makes)

    def load(self, first: Stage) -> str | None:
        """Makes images into values of 8 bits."""
        scale = self.scales[0]
        return loading(first, scale.c_type, f"to_{scale.letter}(value * {c_float(1 / scale.step)})")
