"""Writes a convolution in C: loops over the output, with the kernel's weights unrolled."""

from __future__ import annotations

from dataclasses import dataclass

from ..layer import ConvLayer
from ..plan import Stage
from ..taps import OutputUnit, parts, units_of
from .text import Arithmetic, RowArithmetic, function

MAX_SUMS = 8  # of a panel in registers: half of those of AVX2
MAX_ROW = 32  # outputs of one image's row that are computed together
MAX_HELD = 12  # vectors of one image in registers, which share each weight that is loaded


@dataclass(frozen=True)
class Vector:
    """Neighboring outputs in a row of one image: how many, and the first."""

    lanes: int
    start: int


def conv_panel(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    """Functions for a panel of images, where a vector holds one output of each image."""
    layer = _conv(stage)
    width = min(stage.out[2], max(1, MAX_SUMS // layer.tile**2))
    spots = [
        y * layer.stride[0] * stage.source.row + (column * layer.tile + x) * layer.stride[1]
        for column in range(width)
        for y in range(layer.tile)
        for x in range(layer.tile)
    ]
    taps = [f"MAC(a{n}, w, x + ((at) + {spot}) * PANEL);" for n, spot in enumerate(spots)]
    units = [(unit, _panel_unit(unit, width, layer, arithmetic)) for unit in units_of(stage)]
    return _functions(f"{name}_panel", stage, arithmetic, taps, units, width, is_panel=True)


def _panel_unit(
    unit: OutputUnit, width: int, layer: ConvLayer, arithmetic: Arithmetic
) -> list[str]:
    area = layer.tile**2
    names = ", ".join(f"a{n} = b" for n in range(width * area))
    lines = [f"{{ vec b = SPLAT({arithmetic.bias(unit)}), {names};"]
    lines += [f"TAP({weight}, {at})" for weight, at in arithmetic.weights(unit)]
    lines += [f"MAX(a{n - n % area}, a{n});" for n in range(width * area) if n % area]
    for column in range(width):
        lines.append(
            arithmetic.put(
                f"y + {unit.place + column} * PANEL", f"a{column * area}", unit, lanes=""
            )
        )
    return [*lines, "}"]


def conv_one(name: str, stage: Stage, arithmetic: RowArithmetic) -> str:
    """Functions for one image, where a vector holds neighboring outputs of a row."""
    layer = _conv(stage)
    width = _row_width(stage.out[2] * layer.tile, layer.tile)
    vectors = _vectors(width) if layer.stride[1] == 1 else [Vector(1, at) for at in range(width)]
    tall = _rows_at_once(stage.out[1], layer.tile * len(vectors))
    spots = [
        (vector.lanes, y * layer.stride[0] * stage.source.row + vector.start * layer.stride[1])
        for y in range(tall * layer.tile)
        for vector in vectors
    ]
    taps = [f"MAC{lanes}(a{n}, w, x + (at) + {spot});" for n, (lanes, spot) in enumerate(spots)]
    units = [(unit, _one_unit(unit, vectors, tall, stage, arithmetic)) for unit in units_of(stage)]
    columns = width // layer.tile
    return _functions(f"{name}_one", stage, arithmetic, taps, units, columns, tall, is_panel=False)


def _one_unit(
    unit: OutputUnit, vectors: list[Vector], tall: int, stage: Stage, arithmetic: RowArithmetic
) -> list[str]:
    bias, count = arithmetic.bias(unit), _conv(stage).tile * len(vectors)
    every = [(n, vectors[n % len(vectors)]) for n in range(tall * count)]
    lines = [
        "{",
        *(f"vec{vector.lanes} a{n} = SPLAT{vector.lanes}({bias});" for n, vector in every),
    ]
    lines += [f"TAP({weight}, {at})" for weight, at in arithmetic.weights(unit)]
    for row in range(tall):
        first = unit.place + row * stage.target.row
        lines += _put_row(
            unit, every[row * count : (row + 1) * count], first, _conv(stage).tile, arithmetic
        )
    return [*lines, "}"]


def _put_row(
    unit: OutputUnit,
    sums: list[tuple[int, Vector]],
    address: int,
    tile: int,
    arithmetic: RowArithmetic,
) -> list[str]:
    """Stores one row of outputs: the sums, or the largest sum of each tile."""
    if tile == 1:
        return [
            arithmetic.put(f"y + {address + vector.start}", f"a{n}", unit, lanes=str(vector.lanes))
            for n, vector in sums
        ]
    first = sums[: len(sums) // tile]
    lines = [
        f"MAX{vector.lanes}(a{first[i % len(first)][0]}, a{n});"
        for i, (n, vector) in enumerate(sums)
    ][len(first) :]
    width = first[-1][1].start + first[-1][1].lanes
    lines += [
        f"{{ acc r[{width}];",
        *(f"KEEP{vector.lanes}(r + {vector.start}, a{n});" for n, vector in first),
    ]
    return [*lines, arithmetic.put_row(f"y + {address}", "r", width // tile, tile, unit), "}"]


def _functions(
    name: str,
    stage: Stage,
    arithmetic: Arithmetic,
    taps: list[str],
    units: list[tuple[OutputUnit, list[str]]],
    width: int,
    tall: int = 1,
    *,
    is_panel: bool,
) -> str:
    """Functions that each compute a few units at one step, and one that loops over the steps."""
    texts = {unit.index: text for unit, text in units}
    groups = parts([unit for unit, _ in units], len(taps))
    lines = [f"#define TAP(w, at) {' '.join(taps)}"]
    for number, group in enumerate(groups):
        body = [line for unit in group for line in texts[unit.index]]
        lines.append(function(f"{name}_{number}", arithmetic, body))
    calls = [f"{name}_{number}(s, t);" for number in range(len(groups))]
    loops = _loops(name, stage, (tall, width), calls, arithmetic, is_panel=is_panel)
    return "\n".join([*lines, "#undef TAP", loops])


def _loops(
    name: str,
    stage: Stage,
    step: tuple[int, int],
    calls: list[str],
    arithmetic: Arithmetic,
    *,
    is_panel: bool,
) -> str:
    """The loops over the output; the last step of a row or column begins early, to fit."""
    layer, (_, height, whole), (tall, width) = _conv(stage), stage.out, step
    lanes = ["for (int lane = 0; lane < PANEL; lane += LANES)"] if is_panel else []
    times, shift = (" * PANEL", " + lane") if is_panel else ("", "")
    down, right = layer.tile * layer.stride[0] * stage.source.row, layer.tile * layer.stride[1]
    loops = [
        *lanes,
        f"for (int i = 0; i < {height}; i += {tall}) for (int j = 0;; j += {width}) {{",
        *([f"if (i > {height - tall}) i = {height - tall};"] if height % tall else []),
        f"if (j > {whole - width}) j = {whole - width};",
        f"const {arithmetic.source} *s = x + (i * {down} + j * {right}){times}{shift};",
        f"{arithmetic.target} *t = y + (i * {stage.target.row} + j){times}{shift};",
        *calls,
        f"if (j == {whole - width}) break;",
        "}",
    ]
    return function(name, arithmetic, loops if calls else [])


def _row_width(row: int, tile: int) -> int:
    """How many outputs of a row are computed together: all, or equal parts of whole tiles.

    >>> _row_width(28, 1), _row_width(100, 2)  # steps begin at 0, 32, 64, 68
    (28, 32)
    """
    steps = -(-row // MAX_ROW)
    whole = 4 * tile
    return row if steps == 1 else -(-row // (steps * whole)) * whole


def _rows_at_once(height: int, vectors: int) -> int:
    """How many rows of outputs are computed together, if each takes this many vectors.

    >>> _rows_at_once(12, 6), _rows_at_once(4, 2), _rows_at_once(5, 3), _rows_at_once(5, 20)
    (2, 4, 3, 1)
    """
    steps = -(-height // max(1, min(height, MAX_HELD // vectors)))
    return -(-height // steps)


def _vectors(width: int) -> list[Vector]:
    """Vectors that cover a row; the last may overlap the one before.

    >>> [(vector.lanes, vector.start) for vector in _vectors(14)]
    [(8, 0), (8, 6)]
    """
    vectors, at = [], 0
    while at < width:
        wide = width - at > 4 and width >= 8
        lanes = 8 if wide else 4 if width >= 4 else 1
        start = min(at, width - lanes)
        vectors.append(Vector(lanes, start))
        at = start + lanes
    return vectors


def _conv(stage: Stage) -> ConvLayer:
    assert isinstance(stage.layer, ConvLayer)
    return stage.layer
