"""Writes the functions of a network in C: one or more per layer, and those that a program calls."""

from __future__ import annotations

from ..layer import Conv, Linear
from ..layout import Layout
from ..plan import Stage
from .conv import conv_one, conv_panel
from .linear import linear_one, linear_panel
from .pool import pool_loops
from .templates import ENTRY
from .text import MACHINE, PANEL, PLAIN, Arithmetic, Dialect, RowArithmetic, named

MAX_STACK = 2 * 1024 * 1024  # bytes: some systems give a thread no more


def program(name: str, stages: list[Stage], dialect: Dialect) -> str:
    """The functions of a network in C, without includes and `main`."""
    stack = stack_bytes(stages, dialect)
    if stack > MAX_STACK:
        raise ValueError(
            f"expected a network that needs at most {MAX_STACK:,} bytes of stack for {PANEL} "
            f"images, got {stack:,}; export a smaller network, or one for smaller images"
        )
    panels = [_panel(f"layer{n}", stage, dialect.arithmetic(n)) for n, stage in enumerate(stages)]
    ones = [_one(f"layer{n}", stage, dialect.arithmetic(n)) for n, stage in enumerate(stages)]
    load = dialect.load(stages[0])
    return "\n\n".join(
        [
            (MACHINE if dialect.vectors else PLAIN) + dialect.macros,
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
    """Bytes between layers for one image, or for a panel with its inputs and outputs."""
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
    """Sizes of the two buffers between layers, which alternate."""
    sizes = [layout.size for layout in _between(stages, dialect)]
    return [max([1, *sizes[turn::2]]) for turn in (0, 1)]


def _between(stages: list[Stage], dialect: Dialect) -> list[Layout]:
    loaded = [stages[0].source] if dialect.load(stages[0]) else []
    return [*loaded, *(stage.target for stage in stages[:-1])]


def _network(kind: str, stages: list[Stage], dialect: Dialect) -> str:
    """The function that calls the layers in order."""
    images = "PANEL" if kind == "panel" else "1"
    value = dialect.arithmetic(0).source if dialect.num_bytes == 4 else "unsigned char"
    sizes = _buffers(stages, dialect)
    lines = [
        f"ALIGNED {value} a[{sizes[0]} * {images}], b[{sizes[1]} * {images}];",
        "(void)a, (void)b;",
    ]
    buffers = ["x", *"ab" * len(stages)]
    loaded = dialect.load(stages[0]) is not None
    if loaded:
        lines += [
            *_cleared("a", stages[0].source, images),
            f"load(x, ({dialect.arithmetic(0).source} *)a, {images});",
        ]
    for number, stage in enumerate(stages):
        source, target = buffers[number + loaded], buffers[number + loaded + 1]
        target = "y" if number == len(stages) - 1 else target
        lines += [
            *_cleared(target, stage.target, images),
            _call(number, stage, dialect, kind, source, target),
        ]
    return "\n".join([f"PART void {kind}(const float *x, float *y)", "{", *lines, "}"])


def _cleared(buffer: str, layout: Layout, images: str) -> list[str]:
    """Clears a buffer whose layout has a border of padding."""
    has_border = layout.border != (0, 0)
    return (
        [f"memset({buffer}, 0, sizeof *{buffer} * {layout.size} * {images});"] if has_border else []
    )


def _call(number: int, stage: Stage, dialect: Dialect, kind: str, source: str, target: str) -> str:
    arithmetic = dialect.arithmetic(number)
    arguments = f"(const {arithmetic.source} *){source}, ({arithmetic.target} *){target}"
    if isinstance(stage.layer, Conv | Linear):
        return f"layer{number}_{kind}({arguments});"
    return f"layer{number}_pool({arguments}, {'PANEL' if kind == 'panel' else '1'});"
