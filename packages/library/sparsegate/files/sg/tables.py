"""Which tensors of an .sg file share a table of values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..format import Array
from .rans import WHOLE, frequencies
from .values import MAX_TABLE, RAW, SPLIT, TABLE, Table, split_counts, split_side

SAMPLE = 4096
MAX_SHORT = 127


@dataclass(frozen=True, eq=False)
class Choice:
    """The tables of a file, and how the values of each tensor are stored."""

    tables: list[Table]
    forms: list[int]


def choose_tables(values: list[Array], kinds: list[str], groups: list[str]) -> Choice:
    """The cheapest of: every tensor alone, tensors of one group together, all of one type together."""
    partitions = [
        [[place] for place in range(len(values))],
        _by([f"{kind} {group}" for kind, group in zip(kinds, groups, strict=True)]),
        _by(kinds),
    ]
    plans = [
        [_cheapest(kinds[part[0]], [values[place] for place in part]) for part in partition]
        for partition in partitions
    ]
    costs = [sum(cost for cost, _, _ in plan) for plan in plans]
    best = int(np.argmin(costs))
    tables: list[Table] = []
    forms = [RAW] * len(values)
    for part, (_, table, each_form) in zip(partitions[best], plans[best], strict=True):
        for place, form in zip(part, each_form, strict=True):
            forms[place] = TABLE + len(tables) if form == TABLE else form
        tables += [table] if table is not None and TABLE in each_form else []
    return Choice(tables, forms)


def _by(keys: list[str]) -> list[list[int]]:
    return [
        [place for place, key in enumerate(keys) if key == wanted] for wanted in dict.fromkeys(keys)
    ]


def _cheapest(kind: str, values: list[Array]) -> tuple[float, Table | None, list[int]]:
    """Bits, table and forms of tensors that may share one table."""
    alone = [_alone(each) for each in values]
    plain = (sum(cost for cost, _ in alone), None, [form for _, form in alone])
    few = [place for place, each in enumerate(values) if len(each) and _is_few(each)]
    if not few:
        return plain
    shared = np.concatenate([values[place] for place in few])
    distinct, counts = np.unique(shared, return_counts=True)
    if len(distinct) > MAX_TABLE:
        return plain
    tables = [Table(kind, distinct, each) for each in (counts, _rounded(counts))]
    table = min(tables, key=lambda each: _bits(each, counts))
    cost = _bits(table, counts) + sum(
        alone[place][0] for place in range(len(values)) if place not in few
    )
    forms = [TABLE if place in few else alone[place][1] for place in range(len(values))]
    return (cost, table, forms) if cost < plain[0] else plain


def _rounded(counts: Array) -> Array:
    """Counts in about the same proportion that take a byte each."""
    rounded: Array = np.maximum(1, counts * MAX_SHORT // counts.max())
    return rounded


def _bits(table: Table, counts: Array) -> float:
    """Bits of a table and of so many of its symbols."""
    return 8 * len(table.side()) - float(
        (counts * np.log2(frequencies(table.counts) / WHOLE)).sum()
    )


def _alone(values: Array) -> tuple[float, int]:
    raw = 8.0 * values.nbytes
    if len(values) == 0:
        return 0.0, RAW
    counts = split_counts(values)
    counts = counts[counts > 0]
    split = raw - 8 * len(values) + _entropy(counts) + 8 * len(split_side(values))
    return (split, SPLIT) if split < raw else (raw, RAW)


def _is_few(values: Array) -> bool:
    return len(np.unique(values[:SAMPLE])) <= MAX_TABLE


def _entropy(counts: Array) -> float:
    return float((counts * -np.log2(counts / counts.sum())).sum())
