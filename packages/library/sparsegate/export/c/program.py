"""The C file of a network: its layers, and the functions that a program calls."""

from __future__ import annotations

from ..layer import Conv, Linear
from ..layout import Layout
from ..plan import Stage
from .conv import conv_one, conv_panel
from .entry import ENTRY
from .linear import linear_one, linear_panel
from .pool import pool_loops
from .text import MACHINE, PANEL, PLAIN, Arithmetic, Dialect, RowArithmetic, named

MAX_STACK = 2 * 1024 * 1024  # bytes; threads have as little as that on some systems


def program(name: str, stages: list[Stage], dialect: Dialect) -> str:
    """The C code of a network, without its `main`."""
    stack = stack_bytes(stages, dialect)
    if stack > MAX_STACK:
        raise ValueError(
            f"{PANEL} images need {stack:,} bytes of stack between layers, and {MAX_STACK:,} are allowed; "
            "hard-wired code is for smaller networks or images"
        )
    panels = [_panel(f"layer{n}", stage, dialect.arithmetic(n)) for n, stage in enumerate(stages)]
    ones = [_one(f"layer{n}", stage, dialect.arithmetic(n)) for n, stage in enumerate(stages)]
    load = dialect.load(stages[0])
    return "\n\n".join(
        [
            f'#include "{name}.h"\n#include <math.h>\n#include <string.h>',
            (MACHINE if dialect.vectors else PLAIN) + dialect.words,
            *([load] if load else []),
            *panels,
            _network("panel", stages, dialect),
            *(
                ["#if LANES > 1", *ones, _network("one", stages, dialect), "#endif"]
                if dialect.vectors
                else []
            ),
            named(ENTRY, name),
        ]
    )


def stack_bytes(stages: list[Stage], dialect: Dialect, images: int = PANEL) -> int:
    """What so many images take between layers; those of a panel, with their input and output, side by side."""
    inside = sum(_buffers(stages, dialect)) * dialect.num_bytes
    ends = 4 * (stages[0].source.size + stages[-1].target.size)
    return inside if images == 1 else (inside + ends) * (PANEL if dialect.vectors else 1)


def _panel(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    if isinstance(stage.layer, Conv):
        return conv_panel(name, stage, arithmetic)
    if isinstance(stage.layer, Linear):
        return linear_panel(name, stage, arithmetic)
    return pool_loops(f"{name}_pool", stage, arithmetic)  # for any number of images


def _one(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    if isinstance(stage.layer, Conv) and isinstance(arithmetic, RowArithmetic):
        return conv_one(name, stage, arithmetic)
    return linear_one(name, stage, arithmetic) if isinstance(stage.layer, Linear) else ""


def _buffers(stages: list[Stage], dialect: Dialect) -> list[int]:
    """Values that lie between layers, which use two buffers by turns."""
    sizes = [each.size for each in _between(stages, dialect)]
    return [max([1, *sizes[turn::2]]) for turn in (0, 1)]


def _between(stages: list[Stage], dialect: Dialect) -> list[Layout]:
    loaded = [stages[0].source] if dialect.load(stages[0]) else []
    return [*loaded, *(stage.target for stage in stages[:-1])]


def _network(kind: str, stages: list[Stage], dialect: Dialect) -> str:
    """The function that calls the layers one after the other."""
    images = "PANEL" if kind == "panel" else "1"
    value = dialect.arithmetic(0).source if dialect.num_bytes == 4 else "unsigned char"
    sizes = _buffers(stages, dialect)
    lines = [
        f"ALIGNED {value} a[{sizes[0]} * {images}], b[{sizes[1]} * {images}];",
        "(void)a, (void)b;",
    ]
    places = ["x", *"ab" * len(stages)]
    loaded = dialect.load(stages[0]) is not None
    if loaded:
        lines += [
            *_cleared("a", stages[0].source, images),
            f"load(x, ({dialect.arithmetic(0).source} *)a, {images});",
        ]
    for number, stage in enumerate(stages):
        source, target = places[number + loaded], places[number + loaded + 1]
        target = "y" if number == len(stages) - 1 else target
        lines += [
            *_cleared(target, stage.target, images),
            _call(number, stage, dialect, kind, source, target),
        ]
    return "\n".join([f"PART void {kind}(const float *x, float *y)", "{", *lines, "}"])


def _cleared(buffer: str, layout: Layout, images: str) -> list[str]:
    """Zeros, where a border is wanted."""
    wanted = layout.border != (0, 0)
    return [f"memset({buffer}, 0, sizeof *{buffer} * {layout.size} * {images});"] if wanted else []


def _call(number: int, stage: Stage, dialect: Dialect, kind: str, source: str, target: str) -> str:
    arithmetic = dialect.arithmetic(number)
    words = f"(const {arithmetic.source} *){source}, ({arithmetic.target} *){target}"
    if isinstance(stage.layer, Conv | Linear):
        return f"layer{number}_{kind}({words});"
    return f"layer{number}_pool({words}, {'PANEL' if kind == 'panel' else '1'});"
