"""Codes the names, types and shapes of the tensors of *.sg files, version 3.

Tensors are coded in groups: those of one layer share a name, and one shape determines the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..types import TYPES, Shape, check_shape
from .bytestream import ByteReader, varint

CODES = list(TYPES)
MAX_TENSORS, MAX_NAME, MAX_NAMES, MAX_SIZE = 2**20, 4096, 2**26, 2**48
"""The most groups, the bytes of the longest name and of all names, and the largest size."""
Shapes = dict[str, tuple[str, Shape]]
"""Type and shape of every tensor, in the file's order."""

ENDINGS: tuple[tuple[str, ...], ...] = (
    ("",),
    (".weight",),
    (".bias",),
    (".weight", ".bias"),
    (".bias", ".weight"),
    (".weight", ".bias", ".running_mean", ".running_var", ".num_batches_tracked"),
    (".bias", ".num_batches_tracked", ".running_mean", ".running_var", ".weight"),
)
"""What follows the name of a group in the names of its tensors. A group states its number here."""
LONGEST_FIRST = sorted(range(1, len(ENDINGS)), key=lambda number: -len(ENDINGS[number]))
MOST_ENDINGS = max(map(len, ENDINGS))
MANY_DIMENSIONS, ENDING_UNIT, OTHER_TYPE, SAME_TAIL = 7, 8, 64, 128
"""The fields of a group's first byte."""
LONG_CUT = 15


@dataclass
class _Group:
    name: bytes
    dtype: str
    shape: Shape
    ending: int

    @property
    def is_possible(self) -> bool:
        """Whether the shape tells those of all tensors."""
        return len(ENDINGS[self.ending]) == 1 or len(self.shape) > 0

    def tensors(self) -> Shapes:
        """The tensors of the group, each with its type and shape."""
        name = self.name.decode()
        return {name + ending: self._about(ending) for ending in ENDINGS[self.ending]}

    def _about(self, ending: str) -> tuple[str, Shape]:
        if ending == ".num_batches_tracked":
            return "I64", ()
        only = len(ENDINGS[self.ending]) == 1
        return self.dtype, self.shape if only or ending == ".weight" else self.shape[:1]


@dataclass
class _Before:
    """What groups so far tell about the next: writer and reader keep the same."""

    name: bytes = b""
    dtype: str = "F32"
    rows: int = 1
    """The first size of the last group of two dimensions or more."""
    tails: dict[int, Shape] = field(default_factory=dict)
    """The sizes after the second of the last group of each number of dimensions."""

    def note(self, group: _Group) -> None:
        """Takes a group into account."""
        self.name, self.dtype = group.name, group.dtype
        if len(group.shape) >= 2:
            self.rows = group.shape[0]
            self.tails[len(group.shape)] = group.shape[2:]


def encode_shapes(shapes: Shapes) -> bytes:
    """The tensors' names, types and shapes as bytes."""
    before, groups = _Before(), _grouped(shapes)
    pieces = [varint(len(groups))]
    for group in groups:
        pieces.append(_encode_group(group, before))
        before.note(group)
    return b"".join(pieces)


def read_shapes(reader: ByteReader) -> Shapes:
    """The tensors' names, types and shapes; raises ValueError if they are impossible."""
    before, shapes, names = _Before(), Shapes(), 0
    for _ in range(reader.varint(MAX_TENSORS)):
        group = _read_group(reader, before)
        try:
            tensors = group.tensors()
        except UnicodeDecodeError as error:
            raise ValueError(f"the name before byte {reader.position} is not UTF-8") from error
        for name, (_, shape) in tensors.items():
            check_shape(name, shape)
            if name in shapes:
                raise ValueError(f"the tensor {name!r} is there twice")
        names += len(group.name) * len(tensors)
        if names > MAX_NAMES:
            raise ValueError(f"the names of its tensors take more than {MAX_NAMES:,} bytes")
        shapes |= tensors
        before.note(group)
    return shapes


def _grouped(shapes: Shapes) -> list[_Group]:
    """Splits the tensors into as few groups as their order allows, from the first on."""
    items, groups, done = list(shapes.items()), [], 0
    while done < len(items):
        group = _group(items[done : done + MOST_ENDINGS])
        groups.append(group)
        done += len(ENDINGS[group.ending])
    return groups


def _group(items: list[tuple[str, tuple[str, Shape]]]) -> _Group:
    """The largest group that begins with the first tensor."""
    for ending in LONGEST_FIRST:
        endings = ENDINGS[ending]
        tensors = dict(items[: len(endings)])
        name = items[0][0].removesuffix(endings[0])
        if list(tensors) == [name + ending for ending in endings]:
            main = name + (".weight" if ".weight" in endings else endings[0])
            group = _Group(name.encode(), *tensors[main], ending)
            if group.is_possible and group.tensors() == tensors:
                return group
    name, (dtype, shape) = items[0]
    return _Group(name.encode(), dtype, shape, 0)


def _encode_group(group: _Group, before: _Before) -> bytes:
    shape, dimensions = group.shape, len(group.shape)
    same_tail = dimensions >= 3 and before.tails.get(dimensions) == shape[2:]
    first = min(dimensions, MANY_DIMENSIONS) + ENDING_UNIT * group.ending
    first += (OTHER_TYPE if group.dtype != before.dtype else 0) + (SAME_TAIL if same_tail else 0)
    pieces = [bytes([first])]
    if dimensions >= MANY_DIMENSIONS:
        pieces.append(varint(dimensions))
    pieces.append(_encode_name(group.name, before.name))
    if group.dtype != before.dtype:
        pieces.append(bytes([CODES.index(group.dtype)]))
    if shape:
        pieces.append(varint(shape[0]))
    if dimensions >= 2:
        times, rest = divmod(shape[1], before.rows) if before.rows else (0, 1)
        pieces.append(varint(2 * shape[1] + 1 if rest else 2 * times))
    if not same_tail:
        pieces += map(varint, shape[2:])
    return b"".join(pieces)


def _encode_name(name: bytes, before: bytes) -> bytes:
    shared = 0
    while shared < min(len(name), len(before)) and name[shared] == before[shared]:
        shared += 1
    cut, added = len(before) - shared, name[shared:]
    if len(name) > MAX_NAME:
        raise ValueError(f"a tensor's name must have at most {MAX_NAME} bytes, got {len(name)}")
    long_cut = varint(cut - LONG_CUT) if cut >= LONG_CUT else b""
    return varint(16 * len(added) + min(cut, LONG_CUT)) + long_cut + added


def _read_group(reader: ByteReader, before: _Before) -> _Group:
    (first,) = reader.take(1)
    dimensions, ending = first % ENDING_UNIT, first // ENDING_UNIT % 8
    if dimensions == MANY_DIMENSIONS:
        dimensions = reader.varint(64)
    if ending >= len(ENDINGS) or (len(ENDINGS[ending]) > 1 and not dimensions):
        raise ValueError(f"the tensors before byte {reader.position} have impossible names")
    name = _read_name(reader, before.name)
    dtype = _read_type(reader) if first & OTHER_TYPE else before.dtype
    shape = [reader.varint(MAX_SIZE)] if dimensions else []
    if dimensions >= 2:
        second = reader.varint(2 * MAX_SIZE + 1)
        shape.append(second >> 1 if second & 1 else (second >> 1) * before.rows)
    if first & SAME_TAIL and dimensions not in before.tails:
        raise ValueError(f"no tensor before byte {reader.position} has {dimensions} dimensions")
    if first & SAME_TAIL:
        shape += before.tails[dimensions]
    else:
        shape += [reader.varint(MAX_SIZE) for _ in range(dimensions - 2)]
    return _Group(name, dtype, tuple(shape), ending)


def _read_name(reader: ByteReader, before: bytes) -> bytes:
    added, cut = divmod(reader.varint(16 * MAX_NAME + LONG_CUT), 16)
    if cut == LONG_CUT:
        cut += reader.varint(MAX_NAME)
    if cut > len(before) or len(before) - cut + added > MAX_NAME:
        raise ValueError(f"the name before byte {reader.position} is impossible")
    return before[: len(before) - cut] + reader.take(added)


def _read_type(reader: ByteReader) -> str:
    (code,) = reader.take(1)
    if code >= len(CODES):
        raise ValueError(f"the type {code} before byte {reader.position} is unknown")
    return CODES[code]
