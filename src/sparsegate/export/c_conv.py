"""A convolution in C: loops over places, its taps written out."""

from __future__ import annotations

from dataclasses import dataclass

from .c_text import Arithmetic, RowArithmetic, function
from .layer import Conv
from .plan import Stage
from .taps import Unit, parts, units_of

MAX_SUMS = 8  # that a panel holds in registers: half of those of AVX2
MAX_ROW = 32  # places of one image's row that are computed together


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
        lines.append(arithmetic.put(f"y + {unit.place + place} * PANEL", f"a{place * area}", unit, lanes=""))
    return [*lines, "}"]


def conv_one(name: str, stage: Stage, arithmetic: RowArithmetic) -> str:
    """Functions for one image, where a vector holds neighbouring places of a row."""
    layer = _conv(stage)
    width = _row_width(stage.out[2] * layer.tile, layer.tile)
    vectors = _vectors(width) if layer.stride[1] == 1 else [Vector(1, at) for at in range(width)]
    spots = [
        (each.lanes, y * layer.stride[0] * stage.source.row + each.start * layer.stride[1])
        for y in range(layer.tile)
        for each in vectors
    ]
    taps = [f"MAC{lanes}(a{n}, w, x + (at) + {spot});" for n, (lanes, spot) in enumerate(spots)]
    units = [(unit, _one_unit(unit, vectors, width, layer, arithmetic)) for unit in units_of(stage)]
    return _functions(f"{name}_one", stage, arithmetic, taps, units, width // layer.tile)


def _one_unit(unit: Unit, vectors: list[Vector], width: int, layer: Conv, arithmetic: RowArithmetic) -> list[str]:
    bias, count = arithmetic.bias(unit), len(vectors)
    every = [(n, vectors[n % count]) for n in range(layer.tile * count)]
    lines = ["{", *(f"vec{each.lanes} a{n} = SPLAT{each.lanes}({bias});" for n, each in every)]
    lines += [f"TAP({weight}, {at})" for weight, at in arithmetic.weights(unit)]
    lines += [f"MAX{each.lanes}(a{n % count}, a{n});" for n, each in every[count:]]
    if layer.tile == 1:
        for n, each in every:
            lines.append(arithmetic.put(f"y + {unit.place + each.start}", f"a{n}", unit, lanes=str(each.lanes)))
        return [*lines, "}"]
    lines += [f"acc r[{width}];", *(f"KEEP{each.lanes}(r + {each.start}, a{n});" for n, each in every[:count])]
    lines.append(arithmetic.put_row(f"y + {unit.place}", "r", width // layer.tile, layer.tile, unit))
    return [*lines, "}"]


def _functions(
    name: str, stage: Stage, arithmetic: Arithmetic, taps: list[str], units: list[tuple[Unit, list[str]]], width: int
) -> str:
    """Functions that compute a few units each at one step, and the one that calls them at every step."""
    texts = {unit.index: text for unit, text in units}
    groups = parts([unit for unit, _ in units], len(taps))
    lines = [f"#define TAP(w, at) {' '.join(taps)}"]
    for number, group in enumerate(groups):
        body = [line for unit in group for line in texts[unit.index]]
        lines.append(function(f"{name}_{number}", arithmetic, body))
    calls = [f"{name}_{number}(s, t);" for number in range(len(groups))]
    return "\n".join([*lines, "#undef TAP", _loops(name, stage, width, calls, arithmetic)])


def _loops(name: str, stage: Stage, width: int, calls: list[str], arithmetic: Arithmetic) -> str:
    """The loops over places; the last step of a row begins early, so that it ends with the row."""
    layer, (_, height, whole) = _conv(stage), stage.out
    panel = name.endswith("_panel")
    lanes = ["for (int lane = 0; lane < PANEL; lane += LANES)"] if panel else []
    times, shift = (" * PANEL", " + lane") if panel else ("", "")
    down, right = layer.tile * layer.stride[0] * stage.source.row, layer.tile * layer.stride[1]
    loops = [
        *lanes,
        f"for (int i = 0; i < {height}; i++) for (int j = 0;; j += {width}) {{",
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
