"""A convolution in C: loops over places, its taps written out."""

from __future__ import annotations

from dataclasses import dataclass

from ..layer import Conv
from ..plan import Stage
from ..taps import Unit, parts, units_of
from .text import Arithmetic, RowArithmetic, function

MAX_SUMS = 8  # that a panel holds in registers: half of those of AVX2
MAX_ROW = 32  # places of one image's row that are computed together
MAX_HELD = 12  # vectors of one image that are held in registers: a weight that is loaded serves all of them


@dataclass(frozen=True)
class Vector:
    """Neighbouring places of one image's row, and where they begin."""

    lanes: int
    start: int


def conv_panel(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    """Functions for a panel of images, where a vector holds one place of all images."""
    layer = _conv(stage)
    width = min(stage.out[2], max(1, MAX_SUMS // layer.tile**2))
    spots = [
        y * layer.stride[0] * stage.source.row + (place * layer.tile + x) * layer.stride[1]
        for place in range(width)
        for y in range(layer.tile)
        for x in range(layer.tile)
    ]
    taps = [f"MAC(a{n}, w, x + ((at) + {spot}) * PANEL);" for n, spot in enumerate(spots)]
    units = [(unit, _panel_unit(unit, width, layer, arithmetic)) for unit in units_of(stage)]
    return _functions(f"{name}_panel", stage, arithmetic, taps, units, width)


def _panel_unit(unit: Unit, width: int, layer: Conv, arithmetic: Arithmetic) -> list[str]:
    area = layer.tile**2
    names = ", ".join(f"a{n} = b" for n in range(width * area))
    lines = [f"{{ vec b = SPLAT({arithmetic.bias(unit)}), {names};"]
    lines += [f"TAP({weight}, {at})" for weight, at in arithmetic.weights(unit)]
    lines += [f"MAX(a{n - n % area}, a{n});" for n in range(width * area) if n % area]
    for place in range(width):
        lines.append(
            arithmetic.put(f"y + {unit.place + place} * PANEL", f"a{place * area}", unit, lanes="")
        )
    return [*lines, "}"]


def conv_one(name: str, stage: Stage, arithmetic: RowArithmetic) -> str:
    """Functions for one image, where a vector holds neighbouring places of a row."""
    layer = _conv(stage)
    width = _row_width(stage.out[2] * layer.tile, layer.tile)
    vectors = _vectors(width) if layer.stride[1] == 1 else [Vector(1, at) for at in range(width)]
    tall = _rows_at_once(stage.out[1], layer.tile * len(vectors))
    spots = [
        (each.lanes, y * layer.stride[0] * stage.source.row + each.start * layer.stride[1])
        for y in range(tall * layer.tile)
        for each in vectors
    ]
    taps = [f"MAC{lanes}(a{n}, w, x + (at) + {spot});" for n, (lanes, spot) in enumerate(spots)]
    units = [(unit, _one_unit(unit, vectors, tall, stage, arithmetic)) for unit in units_of(stage)]
    return _functions(f"{name}_one", stage, arithmetic, taps, units, width // layer.tile, tall)


def _one_unit(
    unit: Unit, vectors: list[Vector], tall: int, stage: Stage, arithmetic: RowArithmetic
) -> list[str]:
    bias, count = arithmetic.bias(unit), _conv(stage).tile * len(vectors)
    every = [(n, vectors[n % len(vectors)]) for n in range(tall * count)]
    lines = ["{", *(f"vec{each.lanes} a{n} = SPLAT{each.lanes}({bias});" for n, each in every)]
    lines += [f"TAP({weight}, {at})" for weight, at in arithmetic.weights(unit)]
    for row in range(tall):
        place = unit.place + row * stage.target.row
        lines += _put_row(
            unit, every[row * count : (row + 1) * count], place, _conv(stage).tile, arithmetic
        )
    return [*lines, "}"]


def _put_row(
    unit: Unit, sums: list[tuple[int, Vector]], place: int, tile: int, arithmetic: RowArithmetic
) -> list[str]:
    """Stores one row of outputs: the sums themselves, or the largest of each tile of them."""
    if tile == 1:
        return [
            arithmetic.put(f"y + {place + each.start}", f"a{n}", unit, lanes=str(each.lanes))
            for n, each in sums
        ]
    first = sums[: len(sums) // tile]
    lines = [
        f"MAX{each.lanes}(a{first[i % len(first)][0]}, a{n});" for i, (n, each) in enumerate(sums)
    ][len(first) :]
    width = first[-1][1].start + first[-1][1].lanes
    lines += [
        f"{{ acc r[{width}];",
        *(f"KEEP{each.lanes}(r + {each.start}, a{n});" for n, each in first),
    ]
    return [*lines, arithmetic.put_row(f"y + {place}", "r", width // tile, tile, unit), "}"]


def _functions(
    name: str,
    stage: Stage,
    arithmetic: Arithmetic,
    taps: list[str],
    units: list[tuple[Unit, list[str]]],
    width: int,
    tall: int = 1,
) -> str:
    """Functions that compute a few units each at one step, and the one that calls them at every step."""
    texts = {unit.index: text for unit, text in units}
    groups = parts([unit for unit, _ in units], len(taps))
    lines = [f"#define TAP(w, at) {' '.join(taps)}"]
    for number, group in enumerate(groups):
        body = [line for unit in group for line in texts[unit.index]]
        lines.append(function(f"{name}_{number}", arithmetic, body))
    calls = [f"{name}_{number}(s, t);" for number in range(len(groups))]
    return "\n".join([*lines, "#undef TAP", _loops(name, stage, (tall, width), calls, arithmetic)])


def _loops(
    name: str, stage: Stage, step: tuple[int, int], calls: list[str], arithmetic: Arithmetic
) -> str:
    """The loops over places; the last step of a row, and the last row, begin early, so that they end with the image."""
    layer, (_, height, whole), (tall, width) = _conv(stage), stage.out, step
    panel = name.endswith("_panel")
    lanes = ["for (int lane = 0; lane < PANEL; lane += LANES)"] if panel else []
    times, shift = (" * PANEL", " + lane") if panel else ("", "")
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
    """Places of a row that are computed together: all, or equal parts in whole tiles.

    >>> _row_width(28, 1), _row_width(100, 2)  # steps begin at 0, 32, 64, 68
    (28, 32)
    """
    steps = -(-row // MAX_ROW)
    whole = 4 * tile
    return row if steps == 1 else -(-row // (steps * whole)) * whole


def _rows_at_once(height: int, vectors: int) -> int:
    """Rows of outputs that are computed together, where each takes so many vectors.

    >>> _rows_at_once(12, 6), _rows_at_once(4, 2), _rows_at_once(5, 3), _rows_at_once(5, 20)
    (2, 4, 3, 1)
    """
    steps = -(-height // max(1, min(height, MAX_HELD // vectors)))
    return -(-height // steps)


def _vectors(width: int) -> list[Vector]:
    """Vectors that cover a row; the last may overlap the one before.

    >>> [(each.lanes, each.start) for each in _vectors(14)]
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


def _conv(stage: Stage) -> Conv:
    assert isinstance(stage.layer, Conv)
    return stage.layer
