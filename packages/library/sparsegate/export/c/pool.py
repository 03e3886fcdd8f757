"""Writes a pool in C that is not part of a convolution: plain loops."""

from __future__ import annotations

from ..layer import Pool
from ..plan import Stage
from .text import Arithmetic

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
    assert isinstance(layer, Pool)
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
