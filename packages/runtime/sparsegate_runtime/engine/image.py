"""Writes planned networks as program images, which any C program can load and run."""

from __future__ import annotations

import ctypes
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import structures as c
from .image_parts import (
    CONSTANT,
    GUARD,
    KINDS,
    LINE,
    MOST_NAME,
    Header,
    ImageBuffer,
    ImageTensor,
)
from .plan import Plan
from .planner import UnplannedError
from .structures import Kind, Structure
from .tensor import Buffer


def image_of(
    plan: Plan, *, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> bytes:
    """A planned network as a program image.

    Args:
        plan: the planned network. `Plan(network, variant=INSTRUCTION_SETS["avx2"])` plans it for
            another instruction set than this machine's fastest.
        inputs: the names of the inputs; `input0` and so on if not given.
        outputs: the names of the outputs; `output0` and so on if not given.

    Raises:
        UnplannedError: the engine does not run every operation of the plan, or the plan is for
            images side by side.

    """
    if plan.side_by_side:
        raise UnplannedError(
            "an image cannot hold a plan for images side by side; plan without side_by_side"
        )
    if any(one.kind is Kind.CACHED_ATTENTION for one in plan.pending):
        raise UnplannedError("an image cannot hold a plan for tokens with a cache")
    others = [one.external.name for one in plan.pending if one.external is not None]
    if others:
        named = ", ".join(dict.fromkeys(name or "an unnamed one" for name in others))
        raise UnplannedError(
            f"an image holds only operations of the engine, and this network has others: {named}"
        )
    return bytes(_Writer(plan, inputs, outputs).image())


class _Writer:
    """Collects the parts of an image, then joins them."""

    def __init__(
        self, plan: Plan, inputs: Sequence[str] | None, outputs: Sequence[str] | None
    ) -> None:
        self.plan = plan
        self._arrays: list[tuple[int, bytes]] = []
        self._known: dict[bytes, int] = {}
        self._end = 0
        self._structures = bytearray()
        self._pointers: list[int] = []
        """Where in the structures the offsets are that count from the start of the data."""
        self.inputs = [
            _tensor(name, node.kind, node.shape, buffer)
            for name, node, buffer in zip(
                _names(inputs, "input", len(plan.inputs)), plan.given, plan.inputs, strict=True
            )
        ]
        self.outputs = [
            _tensor(name, one.buffer.kind, one.shape, one.buffer)
            for name, one in zip(
                _names(outputs, "output", len(plan.outputs)), plan.outputs, strict=True
            )
        ]

    def image(self) -> bytearray:
        """All parts, with their checksum."""
        buffers = [self._buffer(index, one) for index, one in enumerate(self.plan.buffers)]
        for operation in self.plan.program.operations:
            self._add_structure(operation.of)
        kinds = np.array([int(one.kind) for one in self.plan.program.operations], np.int64)
        steps = np.array(self.plan.steps, np.int64)
        tables = [*self.inputs, *self.outputs, *buffers]
        head = ctypes.sizeof(Header) + sum(map(ctypes.sizeof, tables)) + kinds.nbytes + steps.nbytes
        data = -(-(head + len(self._structures)) // LINE) * LINE
        for one in buffers:
            one.at += data if one.kind == CONSTANT else 0
        self._shift(data)
        parts = [*map(bytes, tables), kinds.tobytes(), steps.tobytes(), bytes(self._structures)]
        made = bytearray(data + -(-self._end // LINE) * LINE + 4 * GUARD)
        at = ctypes.sizeof(Header)
        for part in parts:
            made[at : at + len(part)] = part
            at += len(part)
        for offset, content in self._arrays:
            made[data + offset : data + offset + len(content)] = content
        self._add_header(made, len(buffers))
        return made

    def _add_header(self, made: bytearray, num_buffers: int) -> None:
        plan = self.plan
        header = Header(
            b"SGIMAGE", 1, 0, len(made), plan.variant, plan.arena, plan.program.scratch,
            len(self.inputs), len(self.outputs), num_buffers, len(plan.program.operations),
            len(plan.steps), len(self._structures),
        )  # fmt: skip
        made[: ctypes.sizeof(Header)] = bytes(header)
        header.checksum = zlib.crc32(memoryview(made)[16:])
        made[: ctypes.sizeof(Header)] = bytes(header)

    def _buffer(self, index: int, buffer: Buffer) -> ImageBuffer:
        if buffer.constant is not None:
            return ImageBuffer(CONSTANT, 0, self._add(buffer.constant), buffer.constant.nbytes)
        for kind, tensors in enumerate((self.inputs, self.outputs)):
            for number, tensor in enumerate(tensors):
                if tensor.buffer == index + 1:
                    return ImageBuffer(kind, number, 0, tensor.num_bytes)
        raise AssertionError("a buffer must be an input, an output or a constant")

    def _add(self, array: NDArray[Any]) -> int:
        """Adds an array to the data, once; returns where it is."""
        content = array.tobytes()
        digest = hashlib.blake2b(content, digest_size=16).digest()
        if digest not in self._known:
            self._known[digest] = self._end
            self._arrays.append((self._end, content))
            self._end = -(-(self._end + len(content)) // 16) * 16
        return self._known[digest]

    def _add_structure(self, of: Structure) -> None:
        """Adds a structure, with offsets in bytes instead of pointers."""
        arrays = {one.ctypes.data: one for one in _arrays(of.keep)}
        base = len(self._structures)
        self._structures += bytes(of)
        then = None
        for at, name in _pointer_fields(type(of)):
            address = ctypes.c_uint64.from_buffer(of, at).value
            if address and name == "then":
                then = next(one for one in of.keep if isinstance(one, c.Pointwise))
                self._write(base + at, 1)
            elif address:
                self._write(base + at, self._add(arrays[address]))
                self._pointers.append(base + at)
        if then is not None:
            extra = c.Pointwise.from_buffer_copy(then)
            extra.keep = of.keep
            self._add_structure(extra)

    def _write(self, at: int, number: int) -> None:
        self._structures[at : at + 8] = number.to_bytes(8, "little")

    def _shift(self, data: int) -> None:
        for at in self._pointers:
            number = int.from_bytes(self._structures[at : at + 8], "little")
            self._write(at, number + data)


def _names(given: Sequence[str] | None, kind: str, count: int) -> list[str]:
    names = [f"{kind}{index}" for index in range(count)] if given is None else list(given)
    if len(names) != count:
        raise ValueError(f"pass a name for each of the {count} {kind}s, got {len(names)}")
    for name in names:
        if len(name.encode()) > MOST_NAME:
            raise ValueError(f"a name has at most {MOST_NAME} bytes, {name!r} has more")
    return names


def _tensor(name: str, kind: str, shape: tuple[int, ...], buffer: Buffer) -> ImageTensor:
    if len(shape) > 8:
        raise UnplannedError(f"{name} has {len(shape)} dimensions; an image has at most 8")
    sizes = (ctypes.c_int64 * 8)(*shape)
    return ImageTensor(KINDS.index(kind), len(shape), sizes, buffer.slot, name.encode())


def _arrays(kept: Any) -> Iterator[NDArray[Any]]:
    """All arrays that a structure keeps alive, those without elements first."""
    found = []
    for one in kept:
        if isinstance(one, np.ndarray):
            found.append(one)
        elif is_dataclass(one):
            inside = (getattr(one, field.name) for field in fields(one))
            found += [array for array in inside if isinstance(array, np.ndarray)]
    return iter(sorted(found, key=lambda array: array.size))


def _pointer_fields(kind: Any, base: int = 0) -> Iterator[tuple[int, str]]:
    """Where the pointers of a structure are, and their names."""
    for name, of in ((field[0], field[1]) for field in kind._fields_):
        at = base + getattr(kind, name).offset
        if of is ctypes.c_void_p:
            yield at, name
        elif hasattr(of, "_fields_"):
            yield from _pointer_fields(of, at)
