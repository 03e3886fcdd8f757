"""Writes the functions of a network in C: one or more per layer, and those that a program calls."""

from __future__ import annotations

from ..layer import ConvLayer, LinearLayer, PoolLayer
from ..plan import ChannelLayout, Stage
from ..taps import OutputUnit, parts, units_of
from .conv import conv_one, conv_panel
from .templates import ENTRY
from .text import MACHINE, PANEL, PLAIN, Arithmetic, Dialect, RowArithmetic, function, named

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
    if isinstance(stage.layer, ConvLayer):
        return conv_panel(name, stage, arithmetic)
    if isinstance(stage.layer, LinearLayer):
        return linear_panel(name, stage, arithmetic)
    return pool_loops(f"{name}_pool", stage, arithmetic)  # for any number of images


def _one(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    if isinstance(stage.layer, ConvLayer) and isinstance(arithmetic, RowArithmetic):
        return conv_one(name, stage, arithmetic)
    return linear_one(name, stage, arithmetic) if isinstance(stage.layer, LinearLayer) else ""


def _buffers(stages: list[Stage], dialect: Dialect) -> list[int]:
    """Sizes of the two buffers between layers, which alternate."""
    sizes = [layout.size for layout in _between(stages, dialect)]
    return [max([1, *sizes[turn::2]]) for turn in (0, 1)]


def _between(stages: list[Stage], dialect: Dialect) -> list[ChannelLayout]:
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


def _cleared(buffer: str, layout: ChannelLayout, images: str) -> list[str]:
    """Clears a buffer whose layout has a border of padding."""
    has_border = layout.border != (0, 0)
    return (
        [f"memset({buffer}, 0, sizeof *{buffer} * {layout.size} * {images});"] if has_border else []
    )


def _call(number: int, stage: Stage, dialect: Dialect, kind: str, source: str, target: str) -> str:
    arithmetic = dialect.arithmetic(number)
    arguments = f"(const {arithmetic.source} *){source}, ({arithmetic.target} *){target}"
    if isinstance(stage.layer, ConvLayer | LinearLayer):
        return f"layer{number}_{kind}({arguments});"
    return f"layer{number}_pool({arguments}, {'PANEL' if kind == 'panel' else '1'});"


SUMS = 4  # of a long row: additions to different sums run at the same time
LONG = 16


def linear_panel(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    """Functions for a panel of images."""
    return _functions(f"{name}_panel", stage, arithmetic, lanes="")


def linear_one(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    """Functions for one image."""
    return _functions(f"{name}_one", stage, arithmetic, lanes="1")


def _functions(name: str, stage: Stage, arithmetic: Arithmetic, lanes: str) -> str:
    groups = parts(units_of(stage), width=4)
    lines = []
    for number, group in enumerate(groups):
        body = [line for unit in group for line in _unit(unit, arithmetic, lanes)]
        lines.append(function(f"{name}_{number}", arithmetic, body))
    shift, loop = (
        ("", []) if lanes else (" + lane", ["for (int lane = 0; lane < PANEL; lane += LANES) {"])
    )
    calls = [f"{name}_{number}(x{shift}, y{shift});" for number in range(len(groups))]
    return "\n".join([*lines, function(name, arithmetic, [*loop, *calls, *("}" for _ in loop)])])


def _unit(unit: OutputUnit, arithmetic: Arithmetic, lanes: str) -> list[str]:
    sums = SUMS if len(unit.taps) >= LONG else 1
    times = "" if lanes else " * PANEL"
    starts = [arithmetic.bias(unit), *["0"] * (sums - 1)]
    sums_at_start = ", ".join(f"a{n} = SPLAT{lanes}({start})" for n, start in enumerate(starts))
    lines = [f"{{ vec{lanes} {sums_at_start};"]
    for n, (weight, at) in enumerate(arithmetic.weights(unit)):
        lines.append(f"MAC{lanes}(a{n % sums}, {weight}, x + {at}{times});")
    lines += [f"a0 += {' + '.join(f'a{n}' for n in range(1, sums))};"] if sums > 1 else []
    return [*lines, arithmetic.put(f"y + {unit.place}{times}", "a0", unit, lanes=lanes), "}"]


WINDOW = """PART void {name}(const {source} *x, {target} *y, int p)
{{
    for (int c = 0; c < {channels}; c++)
    for (int i = 0; i < {height}; i++) for (int j = 0; j < {width}; j++) {{
        const int top = i * {down} - {top_padding}, left = j * {right} - {left_padding};
        for (int lane = 0; lane < p; lane++) {{
            {acc} sum = {start};
            int count = 0;
            for (int u = top; u < top + {tall}; u += {step_down})
            for (int v = left; v < left + {wide}; v += {step_right}) {{
                if (u >= {rows} + {top_padding} || v >= {columns} + {left_padding}) continue;
                {counted}
                if (u < 0 || u >= {rows} || v < 0 || v >= {columns}) continue;
                const {acc} value = x[(c * {in_plane} + u * {in_row} + v) * p + lane];
                {take}
            }}
            {finish}
            y[({first} + c * {out_plane} + i * {out_row} + j) * p + lane] = ({target}){result};
        }}
    }}
}}"""


def pool_loops(name: str, stage: Stage, arithmetic: Arithmetic) -> str:
    """A function for `p` images."""
    layer, source, target = stage.layer, stage.source, stage.target
    assert isinstance(layer, PoolLayer)
    text, is_max = arithmetic.pooling(), layer.kind == "max"
    finish = "(void)count;" if is_max else f"sum = {text['divided']};"
    return WINDOW.format(
        name=name,
        source=arithmetic.source,
        target=arithmetic.target,
        acc=text["acc"],
        result=text["result"],
        start=text["least"] if is_max else "0",
        counted="count++;" if layer.counts_padding else "",
        take="if (value > sum) sum = value;"
        if is_max
        else f"sum += value;{'' if layer.counts_padding else ' count++;'}",
        finish=finish + (" if (sum < 0) sum = 0;" if layer.relu else ""),
        channels=len(source.live),
        height=stage.out[1],
        width=stage.out[2],
        down=layer.stride[0],
        right=layer.stride[1],
        top_padding=layer.padding[0],
        left_padding=layer.padding[1],
        tall=layer.kernel[0] * layer.dilation[0],
        wide=layer.kernel[1] * layer.dilation[1],
        step_down=layer.dilation[0],
        step_right=layer.dilation[1],
        rows=source.shape[1],
        columns=source.shape[2],
        in_plane=source.plane,
        in_row=source.row,
        first=target.border[0] * target.row + target.border[1],
        out_plane=target.plane,
        out_row=target.row,
    )
