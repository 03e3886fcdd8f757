"""Chooses which tensors of an *.sg file share a table of values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import Array
from .rans import WHOLE, frequencies
from .values import MAX_TABLE, RAW, SPLIT, TABLE, Table, split_counts, split_side

SAMPLE = 4096
MAX_SHORT = 127


@dataclass(frozen=True, eq=False)
class TableChoice:
    """The tables of a file, and how the values of each tensor are stored."""

    tables: list[Table]
    forms: list[int]


@dataclass(frozen=True, eq=False)
class _Offer:
    """The bits of some tensors that may share one table, that table if they do, and their forms."""

    bits: float
    table: Table | None
    forms: list[int]


def choose_tables(values: list[Array], dtypes: list[str], groups: list[str]) -> TableChoice:
    """Chooses the cheapest of three: no sharing, sharing in each group, or in each type."""
    by_group = [f"{dtype} {group}" for dtype, group in zip(dtypes, groups, strict=True)]
    partitions = [[[index] for index in range(len(values))], _by(by_group), _by(dtypes)]
    choices = [
        [_cheapest(dtypes[part[0]], [values[index] for index in part]) for part in partition]
        for partition in partitions
    ]
    costs = [sum(offer.bits for offer in offers) for offers in choices]
    best = int(np.argmin(costs))
    tables: list[Table] = []
    forms = [RAW] * len(values)
    for part, offer in zip(partitions[best], choices[best], strict=True):
        for index, form in zip(part, offer.forms, strict=True):
            forms[index] = TABLE + len(tables) if form == TABLE else form
        if offer.table is not None and TABLE in offer.forms:
            tables.append(offer.table)
    return TableChoice(tables, forms)


def _by(keys: list[str]) -> list[list[int]]:
    return [
        [index for index, key in enumerate(keys) if key == wanted] for wanted in dict.fromkeys(keys)
    ]


def _cheapest(dtype: str, values: list[Array]) -> _Offer:
    """The better of one table for all tensors that have few different values, and no table."""
    alone = [_alone(array) for array in values]
    plain = _Offer(sum(cost for cost, _ in alone), None, [form for _, form in alone])
    few = [index for index, array in enumerate(values) if len(array) and _has_few(array)]
    if not few:
        return plain
    distinct, counts = np.unique(np.concatenate([values[i] for i in few]), return_counts=True)
    if len(distinct) > MAX_TABLE:
        return plain
    tables = [Table(dtype, distinct, stored) for stored in (counts, _rounded(counts))]
    table = min(tables, key=lambda table: _bits(table, counts))
    others = sum(cost for index, (cost, _) in enumerate(alone) if index not in few)
    forms = [TABLE if index in few else form for index, (_, form) in enumerate(alone)]
    shared = _Offer(_bits(table, counts) + others, table, forms)
    return shared if shared.bits < plain.bits else plain


def _rounded(counts: Array) -> Array:
    """Counts in about the same proportion that take one byte each."""
    rounded: Array = np.maximum(1, counts * MAX_SHORT // counts.max())
    return rounded


def _bits(table: Table, counts: Array) -> float:
    """Bits of a table, and of its symbols if they occur `counts` times."""
    shares = frequencies(table.counts) / WHOLE
    return 8 * len(table.side()) - float((counts * np.log2(shares)).sum())


def _alone(values: Array) -> tuple[float, int]:
    """The bits of values without a table, and their form."""
    raw = 8.0 * values.nbytes
    if len(values) == 0:
        return 0.0, RAW
    counts = split_counts(values)
    counts = counts[counts > 0]
    split = raw - 8 * len(values) + _entropy(counts) + 8 * len(split_side(values))
    return (split, SPLIT) if split < raw else (raw, RAW)


def _has_few(values: Array) -> bool:
    return len(np.unique(values[:SAMPLE])) <= MAX_TABLE


def _entropy(counts: Array) -> float:
    return float((counts * -np.log2(counts / counts.sum())).sum())
