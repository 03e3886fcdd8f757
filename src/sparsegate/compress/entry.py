"""One tensor in the format that is cheapest for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from sparsegate.registry import Registry

from .bitmap import Bitmap
from .cost import Cost
from .dense import Dense
from .format import Array, Format, Plan
from .gaps import Gaps
from .rows import Rows
from .tensors import bits_of, empty, num_bytes, to_elements, type_name, whole_type

FORMATS: Registry[Format] = Registry("tensor format", {each.name: each for each in (Dense(), Bitmap(), Gaps(), Rows())})
DESCRIPTION = 8 * 96


@dataclass(frozen=True, eq=False)
class Entry:
    """One tensor in its format."""

    format: Format
    dtype: str
    plan: Plan
    parts: dict[str, Array]

    @classmethod
    def cheapest(cls, tensor: Tensor) -> Entry:
        """The tensor in the format that takes the fewest bits."""
        elements = to_elements(tensor)
        chosen = min(FORMATS.values(), key=lambda each: each.cost(elements).total + _described(each))
        encoded = chosen.encode(elements)
        plan = Plan(elements.shape, elements.num_kept, encoded.settings)
        return cls(chosen, type_name(tensor), plan, encoded.parts)

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

    def check(self) -> None:
        """Raises ValueError if the parts do not make a tensor; much cheaper than making it."""
        self.format.check(self.plan, self.parts, whole_type(self.dtype))

    def write_(self, out: Tensor) -> None:
        """Writes the tensor, which has been checked, into a contiguous one of the same type and shape."""
        self.format.write_(self.plan, self.parts, bits_of(out))


def _described(kind: Format) -> int:
    """About as many bits as a container's header spends on the parts, and on what else a reader must know."""
    return DESCRIPTION * (len(kind.parts) + (kind.name != "dense"))
