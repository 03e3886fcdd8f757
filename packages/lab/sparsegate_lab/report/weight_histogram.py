"""Shows the sizes of kept weights: quantiles and a picture, from the bins of records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from sparsegate_lab.record import SIZE_EDGES, Record

from .figure import INK

MIDDLES = [edge * 2**0.125 for edge in SIZE_EDGES[:-1]]
"""Returns the middle of every bin, except the two at the ends."""


def mean_sizes(records: Sequence[Record]) -> list[float]:
    """Returns the counts of every bin, averaged over runs with different seeds."""
    for record in records:
        if not record.sizes:
            raise ValueError(f"the record of {record.name} has no sizes of weights; train it again")
    return [
        sum(counts) / len(records)
        for counts in zip(*(record.sizes for record in records), strict=True)
    ]


def quantile(counts: Sequence[float], fraction: float) -> float:
    """Returns the size below which a fraction of the weights lie, interpolated within a bin.

    >>> counts = [0.0] * 50 + [10.0] + [0.0] * 43  # all of them between the edges 49 and 50
    >>> round(quantile(counts, 0.5) / SIZE_EDGES[49], 3)  # an eighth of an octave above
    1.091
    """
    wanted, before = fraction * sum(counts), 0.0
    for place, through in enumerate(accumulate(counts)):
        if through >= wanted and counts[place]:
            part = (wanted - before) / counts[place]
            low = SIZE_EDGES[max(0, place - 1)]
            return low * math.exp2(part / 4) if 0 < place < len(SIZE_EDGES) else low
        before = through
    return SIZE_EDGES[-1]


def draw_sizes(axes: Any, sizes: Mapping[str, Sequence[float]]) -> None:
    """Draws a histogram for every named list of counts, with its median."""
    for colour, (name, counts) in zip(INK, sizes.items(), strict=False):
        inner = counts[1:-1]
        axes.fill_between(MIDDLES, inner, step="mid", color=colour, alpha=0.2, linewidth=0)
        axes.step(
            MIDDLES, inner, where="mid", color=colour, label=f"{name}: {sum(counts):,.0f} weights"
        )
        axes.axvline(quantile(counts, 0.5), color=colour, linestyle=":", linewidth=1.4)
    axes.set(
        xscale="log",
        xlabel="size of a kept weight, $|w|$",
        ylabel="weights",
        xlim=(SIZE_EDGES[0], 2.0),
    )
    axes.set_ylim(bottom=0)
    axes.legend()
