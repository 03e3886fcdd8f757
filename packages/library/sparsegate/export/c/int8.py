"""Arithmetic in 8-bit integers: values and weights of 8 bits, sums of 32 bits.

It has no vectors: it is for processors that have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..layer import Layer, PoolLayer
from ..plan import Stage
from ..taps import OutputUnit
from .text import Arithmetic, Dialect, c_float, loading

LARGEST_WEIGHT = 127
LARGEST_SUM = 2**31 - 1
LARGEST_BIAS = 2**30


MACROS = """
typedef int vec;
#define SPLAT(b) (b)
#define MAC(a, w, p) ((a) += (w) * *(p))
#define MAX(a, b) ((a) = (a) > (b) ? (a) : (b))
#define PUT_U(p, a, m) (*(p) = to_u((float)(a) * (m)))
#define PUT_S(p, a, m) (*(p) = to_s((float)(a) * (m)))
#define PUT_F(p, a, m) (*(p) = (float)(a) * (m))
#define PUT_F_RELU(p, a, m) (*(p) = (a) > 0 ? (float)(a) * (m) : 0.0f)

INLINE unsigned char to_u(float value)
{
    value = value > 0.0f ? value : 0.0f;
    return (unsigned char)(int)((value < 255.0f ? value : 255.0f) + 0.5f);
}

INLINE signed char to_s(float value)
{
    value = value > -127.0f ? value : -127.0f;
    return (signed char)((int)((value < 127.0f ? value : 127.0f) + 128.5f) - 128);
}
"""


@dataclass(frozen=True)
class Scale:
    """What one step of an 8-bit value is worth; zero is zero."""

    step: float
    signed: bool

    @property
    def largest(self) -> int:
        """The largest number of steps."""
        return 127 if self.signed else 255

    @property
    def letter(self) -> str:
        """`s` or `u`, as in the names of the C macros."""
        return "s" if self.signed else "u"

    @property
    def c_type(self) -> str:
        """The type in C."""
        return f"{'signed' if self.signed else 'unsigned'} char"


@torch.no_grad()
def scales_of(layers: list[Layer], example: Tensor) -> list[Scale]:
    """Scales of the input and of all layers' outputs but the last; unsigned after a ReLU.

    >>> from ..layer import LinearLayer
    >>> eye = LinearLayer(torch.eye(2), torch.zeros(2), relu=True)
    >>> scales_of([eye, eye], torch.tensor([[-127.0, 25.5]])[:, :, None, None])
    [Scale(step=1.0, signed=True), Scale(step=0.1, signed=False)]
    """
    if not example.any():
        raise ValueError(
            "int8 chooses its scales by the example: expected typical images, got zeros only"
        )
    scales = [_scale(example, signed=bool((example < 0).any()))]
    for layer in layers[:-1]:
        example = layer.run(example)
        scales.append(
            scales[-1] if isinstance(layer, PoolLayer) else _scale(example, signed=not layer.relu)
        )
    return scales


def _scale(values: Tensor, *, signed: bool) -> Scale:
    most = round(float(values.abs().max()), 12)  # a C literal has seven digits
    return Scale((most or 1.0) / (127 if signed else 255), signed)


@dataclass(frozen=True)
class Int8Layer(Arithmetic):
    """A layer with inputs of 8 bits, and outputs of 8 bits or, if it is the last, floats."""

    layer: Layer
    inputs: Scale
    outputs: Scale | None
    """None for the last layer."""

    @property
    def source(self) -> str:  # type: ignore[override]
        """C type of its inputs."""
        return self.inputs.c_type

    @property
    def target(self) -> str:  # type: ignore[override]
        """C type of its outputs."""
        return self.outputs.c_type if self.outputs else "float"

    def weights(self, unit: OutputUnit) -> list[tuple[str, int]]:
        """A unit's weights as integers, without those that round to zero."""
        step = self._step(unit)
        numbers = [(round(weight / step), at) for weight, at in unit.taps]
        return [(str(number), at) for number, at in numbers if number]

    def bias(self, unit: OutputUnit) -> str:
        """The initial value of a unit's sum, in steps of its weights times steps of its inputs."""
        largest = sum(abs(int(number)) for number, _ in self.weights(unit)) * self.inputs.largest
        bias = round(unit.bias / (self._step(unit) * self.inputs.step))
        if largest + abs(bias) > LARGEST_SUM:
            raise ValueError(
                f"the sum of unit {unit.index} over {len(unit.taps):,} weights may exceed 32 bits; "
                "prune it further, or export fp32"
            )
        return str(bias)

    def put(self, address: str, value: str, unit: OutputUnit, *, lanes: str) -> str:
        """Stores a sum as an 8-bit value, where clipping at zero is the ReLU, or as a float."""
        return f"PUT_{self._suffix}{lanes}({address}, {value}, {self._factor(unit)});"

    def pooling(self) -> dict[str, str]:
        """The C text of a pool, whose outputs have the scale of its inputs."""
        mean = "(sum >= 0 ? sum + count / 2 : sum - count / 2) / count"
        result = "sum" if self.outputs else f"((float)sum * {c_float(self.inputs.step)})"
        return {"acc": "int", "least": "-128", "divided": mean, "result": result}

    @property
    def _suffix(self) -> str:
        if self.outputs:
            return self.outputs.letter.upper()
        return "F_RELU" if self.layer.relu else "F"

    def _step(self, unit: OutputUnit) -> float:
        """What one step of a unit's weights is worth; large enough for the bias to fit."""
        weight = max((abs(weight) for weight, _ in unit.taps), default=0.0)
        return (
            max(weight / LARGEST_WEIGHT, abs(unit.bias) / (self.inputs.step * LARGEST_BIAS)) or 1.0
        )

    def _factor(self, unit: OutputUnit) -> str:
        return c_float(
            self._step(unit) * self.inputs.step / (self.outputs.step if self.outputs else 1.0)
        )


@dataclass(frozen=True, eq=False)
class Int8(Dialect):
    """Values and weights of 8 bits, with scales from an example."""

    stages: list[Stage]
    scales: list[Scale]
    """Of the input, and of every layer's outputs but the last."""
    macros: str = MACROS
    num_bytes: int = 1
    vectors: bool = False

    def arithmetic(self, number: int) -> Int8Layer:
        """How a layer computes."""
        outputs = self.scales[number + 1] if number + 1 < len(self.scales) else None
        return Int8Layer(self.stages[number].layer, self.scales[number], outputs)

    def load(self, first: Stage) -> str | None:
        """Converts images to 8-bit values."""
        scale = self.scales[0]
        return loading(first, scale.c_type, f"to_{scale.letter}(value * {c_float(1 / scale.step)})")
