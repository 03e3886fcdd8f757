"""One tensor in the format that is cheapest for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from sparsegate_runtime.registry import Registry

from .bitmap import Bitmap
from .cost import Cost
from .dense import Dense
from .format import Array, Format, Plan
from .gaps import Gaps
from .rows import Rows
from .tensors import (
    bits_of,
    empty,
    num_bytes,
    num_negative_zeros,
    to_elements,
    type_name,
    whole_type,
)

FORMATS: Registry[Format] = Registry(
    "tensor format", {each.name: each for each in (Dense(), Bitmap(), Gaps(), Rows())}
)
DESCRIPTION = 8 * 96


@dataclass(frozen=True, eq=False)
class Entry:
    """One tensor in its format."""

    format: Format
    dtype: str
    plan: Plan
    parts: dict[str, Array]
    lost_zeros: int = 0
    """How many elements were -0.0 and are stored as 0.0."""

    @classmethod
    def cheapest(cls, tensor: Tensor, *, negative_zeros: bool = False) -> Entry:
        """The tensor in the format that takes the fewest bits; -0.0 is a zero like any other, unless it is kept."""
        exact = to_elements(tensor, negative_zeros=True)
        lost = 0 if negative_zeros else num_negative_zeros(exact.bits, tensor)
        elements = to_elements(tensor) if lost else exact
        chosen = min(
            FORMATS.values(), key=lambda each: each.cost(elements).total + _described(each)
        )
        encoded = chosen.encode(elements)
        plan = Plan(elements.shape, elements.num_kept, encoded.settings)
        return cls(chosen, type_name(tensor), plan, encoded.parts, lost)

    @property
    def kept(self) -> int:
        """Elements that are not zero."""
        return int(np.count_nonzero(self.parts["values"]))

    @property
    def cost(self) -> Cost:
        """Bits of values and of indices."""
        indices = sum(part.nbytes for name, part in self.parts.items() if name != "values")
        return Cost(values=8 * self.parts["values"].nbytes, indices=8 * indices)

    @property
    def num_bytes(self) -> int:
        """The size of the dense tensor."""
        return num_bytes(self.dtype, self.plan.shape)

    def tensor(self) -> Tensor:
        """The dense tensor; raises ValueError if the parts do not make one."""
        self.check()
        out = empty(self.dtype, self.plan.shape)
        self.write_(out)
        return out

    def mask(self) -> Array:
        """Which elements are kept, in row-major order; the parts have been checked."""
        if self.format.name == "dense":
            return np.asarray(self.parts["values"] != 0)
        out = np.empty(self.plan.total, np.int8)  # a byte for each, however wide the values are
        self.format.write_(
            self.plan, {**self.parts, "values": np.ones(self.plan.kept, np.int8)}, out
        )
        return out.view(bool)

    def check(self) -> None:
        """Raises ValueError if the parts do not make a tensor; much cheaper than making it."""
        self.format.check(self.plan, self.parts, whole_type(self.dtype))

    def write_(self, out: Tensor) -> None:
        """Writes the tensor, which has been checked, into a contiguous one of the same type and shape."""
        self.format.write_(self.plan, self.parts, bits_of(out))


def _described(kind: Format) -> int:
    """About as many bits as a container's header spends on the parts, and on what else a reader must know."""
    return DESCRIPTION * (len(kind.parts) + (kind.name != "dense"))
