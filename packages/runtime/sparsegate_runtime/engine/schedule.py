"""Orders the operations of a plan in steps, and gives every buffer its place in the arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .pending import Pending
from .structures import Kind
from .tensor import Buffer, rounded

BAND = 2048
"""Positions that pass through several operations together."""
LOCAL = (Kind.MULTIPLY, Kind.DENSE_MULTIPLY, Kind.POINTWISE, Kind.CHANNEL_NORM)
"""Operations whose steps may divide their positions."""
WORTH = 400 * 1024
"""Bytes that a run of operations must move for bands to pay off."""
LINE = 16


@dataclass(frozen=True)
class Piece:
    """Steps that run in one call, or an operation of the caller."""

    first: int
    last: int
    external: int = -1
    """The index of the caller's operation."""


def steps_of(
    pending: Sequence[Pending], band: int = BAND
) -> tuple[list[tuple[int, int, int]], list[Piece]]:
    """The steps, and the pieces between operations of the caller."""
    steps: list[tuple[int, int, int]] = []
    pieces: list[Piece] = []
    begin = 0
    for run in runs(pending):
        first = pending[run[0]]
        if first.kind is None:
            if len(steps) > begin:
                pieces.append(Piece(begin, len(steps)))
            pieces.append(Piece(len(steps), len(steps), external=run[0]))
            begin = len(steps)
        else:
            steps += _steps(pending, run, band)
    if len(steps) > begin:
        pieces.append(Piece(begin, len(steps)))
    return steps, pieces


def runs(pending: Sequence[Pending]) -> list[list[int]]:
    """Neighbors that work on the same positions, and every other operation alone."""
    found: list[list[int]] = []
    for index, one in enumerate(pending):
        before = pending[index - 1] if index else None
        joins = (
            before is not None
            and one.kind in LOCAL
            and before.kind in LOCAL
            and one.extent > 0
            and one.extent == before.extent
        )
        if joins:
            found[-1].append(index)
        else:
            found.append([index])
    return found


def _steps(pending: Sequence[Pending], run: Sequence[int], band: int) -> list[tuple[int, int, int]]:
    if any(pending[index].ranges for index in run):
        return [(index, *piece) for index in run for piece in _ranges(pending[index])]
    extent = abs(pending[run[0]].extent)
    bytes_moved = 4 * sum(buffer.size for index in run for buffer in pending[index].writes)
    if len(run) == 1 or extent <= band or bytes_moved < WORTH:
        return [(index, 0, abs(pending[index].extent)) for index in run]
    # An operation that reads further back or ahead follows the one before at a distance.
    lags, lag = [], 0
    for index in run:
        lag += rounded(pending[index].reach[1])
        lags.append(lag)
    done = [0] * len(run)
    steps = []
    for end in range(band, extent + lag + band, band):
        for order, index in enumerate(run):
            until = min(extent, max(0, end - lags[order]))
            until = extent if extent - until < LINE else until // LINE * LINE
            if until > done[order]:
                steps.append((index, done[order], until))
                done[order] = until
    return steps


def _ranges(one: Pending) -> tuple[tuple[int, int], ...]:
    return one.ranges or ((0, abs(one.extent)),)


def place(pending: Sequence[Pending], kept: Sequence[Buffer]) -> int:
    """Gives every buffer of the arena its offset; returns the size of the arena in floats.

    Buffers whose lives do not overlap share memory. Operations of a run count as one moment.
    """
    buffers = _lives(pending, kept)
    placed: list[Buffer] = []
    size = 0
    for buffer in sorted(buffers, key=lambda one: (-one.size, one.first)):
        at = 0
        for other in sorted(placed, key=lambda one: one.offset):
            apart = other.last < buffer.first or buffer.last < other.first
            if (
                not apart
                and other.offset < at + rounded(buffer.size)
                and at < other.offset + rounded(other.size)
            ):
                at = other.offset + rounded(other.size)
        buffer.offset = at
        placed.append(buffer)
        size = max(size, at + rounded(buffer.size))
    return size


def _lives(pending: Sequence[Pending], kept: Sequence[Buffer]) -> list[Buffer]:
    found: dict[Buffer, None] = {}
    for moment, run in enumerate(runs(pending)):
        for index in run:
            for buffer in (*pending[index].reads, *pending[index].writes):
                if buffer.slot:
                    continue
                if buffer not in found:
                    buffer.first = moment
                    found[buffer] = None
                buffer.last = moment
    for buffer in kept:
        if not buffer.slot and buffer in found:
            buffer.last = len(pending)
    return list(found)
