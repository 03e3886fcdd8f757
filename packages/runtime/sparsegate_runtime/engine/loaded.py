"""Loads program images, and runs them on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.kernels import KERNELS, explain_missing

from .image_parts import INSTRUCTION_SETS, KINDS, Header, ImageTensor
from .memory import aligned

DTYPES = (np.float32, np.int64, np.bool_)


@dataclass(frozen=True)
class Signature:
    """An input or output of an image."""

    name: str
    kind: str
    """`float32`, `int64` or `bool`."""
    shape: tuple[int, ...]


class Image:
    """A loaded program image.

    >>> image = Image(image_of(plan))  # doctest: +SKIP
    >>> [logits] = image.run([pixels])  # doctest: +SKIP

    Args:
        data: the bytes of the image. They are copied, so that they begin at a cache line.

    Raises:
        ValueError: the bytes are no image, damaged, or of a newer version.

    """

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        if KERNELS is None:
            raise RuntimeError(explain_missing())
        content = np.frombuffer(data, np.uint8)
        self._data = aligned(-(-content.size // 4) + 1)
        self._data.view(np.uint8)[: content.size] = content
        address = self._data.ctypes.data
        size = KERNELS.sg_image_room(address, content.size)
        _raise(-min(size, 0))
        self._room = aligned(-(-size // 4))
        self._address = self._room.ctypes.data
        _raise(KERNELS.sg_image_load(address, content.size, self._address, size))
        self.inputs, self.outputs = (self._signatures(kind) for kind in (0, 1))
        header = Header.from_address(address)
        self.instruction_set = list(INSTRUCTION_SETS)[header.variant]

    def _signatures(self, outputs: int) -> tuple[Signature, ...]:
        assert KERNELS is not None
        found = []
        for index in range(KERNELS.sg_image_num(self._address, outputs)):
            address = KERNELS.sg_image_tensor(self._address, outputs, index)
            one = ImageTensor.from_address(address)
            found.append(Signature(one.name.decode(errors="replace"), KINDS[one.kind], one.shape))
        return tuple(found)

    def use(self, instruction_set: str) -> str:
        """Chooses the kernels of an instruction set, or the fastest if the processor lacks it.

        Returns:
            The instruction set of the chosen kernels.

        """
        assert KERNELS is not None
        used: int = KERNELS.sg_image_use(self._address, INSTRUCTION_SETS[instruction_set])
        return list(INSTRUCTION_SETS)[used]

    def run(self, inputs: Sequence[NDArray[Any]], *, threads: int = 1) -> list[NDArray[Any]]:
        """Computes the outputs.

        Args:
            inputs: an array for every input, of its shape.
            threads: how many threads compute.

        """
        assert KERNELS is not None
        given = self._checked(inputs)
        made = [np.empty(one.shape, DTYPES[KINDS.index(one.kind)]) for one in self.outputs]
        size = KERNELS.sg_image_memory(self._address, threads)
        _raise(-min(size, 0))
        memory = aligned(-(-size // 4))
        pointers = [
            (ctypes.c_void_p * len(some))(*(a.ctypes.data for a in some)) for some in (given, made)
        ]
        _raise(KERNELS.sg_image_run(self._address, memory.ctypes.data, threads, *pointers))
        return made

    def _checked(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        if len(inputs) != len(self.inputs):
            raise ValueError(f"expected {len(self.inputs)} inputs, got {len(inputs)}")
        given = []
        for wanted, array in zip(self.inputs, inputs, strict=True):
            if array.shape != wanted.shape or array.dtype != DTYPES[KINDS.index(wanted.kind)]:
                raise ValueError(
                    f"{wanted.name} must be {wanted.kind} of shape {wanted.shape}, "
                    f"got {array.dtype} of shape {array.shape}"
                )
            given.append(np.ascontiguousarray(array))
        return given


def _raise(error: int) -> None:
    assert KERNELS is not None
    if error:
        raise ValueError(KERNELS.sg_image_error(error).decode())
