"""Copies, fills, phases and embeddings: every element as numpy has it, and no other is written."""

import ctypes

import numpy as np
import pytest

from sparsegate_runtime.engine.structures import (
    Copy,
    Embedding,
    Fill,
    Kind,
    Phases,
    Place,
)

DIMS = ctypes.c_int64 * 6
GUARD = np.float32(-12345.5)


def laid_out(random, shape, *, gaps):
    """Strides and size of a tensor whose dimensions have any order in memory, with gaps."""
    strides, size = [0] * len(shape), 1
    for d in random.permutation(len(shape)):
        strides[d] = size
        size = size * shape[d] + (int(random.integers(0, 4)) if gaps else 0)
    return strides, size


def seen(memory, shape, strides, offset=0):
    """A view of memory by strides in floats."""
    return np.lib.stride_tricks.as_strided(
        memory[offset:], shape, [4 * stride for stride in strides]
    )


def check_copy(random, guarded, view, way, shape, in_layout, out_layout):
    (in_strides, in_size), (out_strides, out_size) = in_layout, out_layout
    source = random.standard_normal(in_size).astype(np.float32)
    before, after = guarded.add(source), guarded.add_empty(out_size)
    copy = Copy(len(shape), DIMS(*shape), view(before, in_strides), view(after, out_strides))
    guarded.run(Kind.COPY, copy, way)
    want = np.full(out_size, GUARD)
    seen(want, shape, out_strides)[...] = seen(source, shape, in_strides)
    assert np.array_equal(guarded.content(after), want)


@pytest.mark.parametrize("case", range(24))
def test_a_copy_has_the_elements_of_its_source_in_any_order(case, guarded, view, way):
    random = np.random.default_rng(case)
    shape = [int(random.choice([1, 2, 3, 5, 17])) for _ in range(random.integers(1, 7))]
    for d in random.permutation(len(shape))[:2]:
        shape[d] = int(random.choice([4, 16, 19, 33]))
    layouts = (laid_out(random, shape, gaps=case % 2) for _ in range(2))
    check_copy(random, guarded, view, way, shape, *layouts)


@pytest.mark.parametrize("ahead", [0, 40])
def test_a_long_row_may_be_copied_onto_itself(ahead, guarded, view, way):
    source = np.arange(3000, dtype=np.float32)
    memory = guarded.add(source)
    places = [view(memory, [1], offset) for offset in (ahead, 40 - ahead)]
    guarded.run(Kind.COPY, Copy(1, DIMS(2000), *places), way)
    source[40 - ahead : 2040 - ahead] = source[ahead : 2000 + ahead].copy()
    assert np.array_equal(guarded.content(memory), source)


@pytest.mark.parametrize(
    ("shape", "in_strides", "out_strides"),
    [
        ((70, 150), (150, 1), (1, 70)),
        ((16, 16), (1, 20), (18, 1)),
        ((3, 200, 77), (77 * 200, 77, 1), (200 * 77, 1, 200)),
        ((9000,), (1,), (1,)),
        ((2, 5000), (6000, 1), (5001, 1)),
        ((33, 20), (0, 1), (20, 1)),
        ((33, 20), (1, 0), (20, 1)),
        ((40, 20), (1, 40), (40, 2)),
        ((5, 0), (1, 5), (1, 5)),
        ((), (), ()),
    ],
)
def test_rows_transpositions_and_repetitions_are_copied(
    shape, in_strides, out_strides, guarded, view, way
):
    sizes = [
        sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1
        for strides in (in_strides, out_strides)
    ]
    layouts = zip((in_strides, out_strides), np.maximum(sizes, 1), strict=True)
    check_copy(np.random.default_rng(0), guarded, view, way, shape, *layouts)


@pytest.mark.parametrize(("begin", "end"), [(0, 5), (3, 40), (7, 9007), (4, 4)])
def test_a_fill_writes_the_positions_of_its_step(begin, end, guarded, way):
    channels, stride = 3, 9100
    out = guarded.add_empty(channels * stride)
    guarded.run(Kind.FILL, Fill(channels, Place(out, 10, stride), 2.5), way, begin=begin, end=end)
    want = np.full((channels, stride), GUARD)
    want[:, 10 + begin : 10 + end] = 2.5
    assert np.array_equal(guarded.content(out), want.reshape(-1))


def phases_case(random):
    """A random geometry: its sizes, strides and borders."""
    images, channels = random.integers(1, 4, 2)
    height, width = random.integers(1, 75, 2)
    stride_y, stride_x = random.choice([1, 2, 2, 3], 2)
    first_y, first_x = -random.integers(0, 4, 2)
    phases_y, phases_x = (int(random.integers(1, s + 1)) for s in (stride_y, stride_x))
    rows, columns = height // stride_y + 2, width // stride_x + 2
    line = columns + random.integers(0, 3)
    plane = rows * line + random.integers(0, 9)
    sizes = (images, channels, height, width, stride_y, stride_x, first_y, first_x)
    borders = (int(random.integers(0, 9)), plane, line, rows, columns)
    return [int(size) for size in sizes], (phases_y, phases_x), [int(one) for one in borders]


def phases_wanted(image, sizes, wanted, borders, fill):
    """out[channel][phase y][phase x][position], by definition."""
    images, channels, height, width, stride_y, stride_x, first_y, first_x = sizes
    lead, plane, line, rows, columns = borders
    out = np.full((channels, *wanted, lead + images * plane), fill, np.float32)
    for y, x, i, j in np.ndindex(*wanted, rows, columns):
        at_y, at_x = first_y + y + i * stride_y, first_x + x + j * stride_x
        if 0 <= at_y < height and 0 <= at_x < width:
            out[:, y, x, lead + i * line + j :: plane] = image[:, :, at_y, at_x].T
    return out


@pytest.mark.parametrize("case", range(16))
def test_phases_hold_every_second_pixel_and_the_fill_around(case, guarded, view, way):
    random = np.random.default_rng(case)
    sizes, wanted, borders = phases_case(random)
    shape = sizes[:4]
    strides, size = laid_out(random, shape, gaps=case % 2)
    if case % 4 < 3:  # pixels are neighbors
        strides = [shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1]
        size = strides[0] * shape[0]
    source = random.standard_normal(size).astype(np.float32)
    fill = float(random.choice([0, -np.inf]))
    want = phases_wanted(seen(source, shape, strides), sizes, wanted, borders, fill)
    before = guarded.add(source)
    phase = want.shape[-1] + 5
    channel = phase * wanted[0] * wanted[1] + 3
    out = guarded.add_empty(channel * sizes[1])
    place = Place(out, 0, channel)
    phases = Phases(
        *sizes[:4], view(before, strides), *sizes[4:], *wanted, place, phase, *borders, fill
    )
    guarded.run(Kind.PHASES, phases, way)
    expected = np.full(channel * sizes[1], GUARD)
    steps = (channel, wanted[1] * phase, phase, 1)
    seen(expected, want.shape, steps)[...] = want
    assert np.array_equal(guarded.content(out), expected)


def embedding_of(guarded, view, ids, table, *, features_first):
    """An embedding of ids [images, tokens], and its output's buffer and strides."""
    features, tokens = table.shape[1], ids.shape[1]
    strides = (features * (tokens + 2), 1) if features_first else (features * tokens, features)
    feature = tokens + 2 if features_first else 1
    out = guarded.add_empty(ids.shape[0] * strides[0])
    embedding = Embedding(
        *table.shape,
        table.ctypes.data,
        2,
        DIMS(*ids.shape),
        view(guarded.add(ids), (tokens, 1)),
        view(out, strides),
        feature,
    )
    return embedding, out, (*strides, feature)


@pytest.mark.parametrize("features_first", [True, False])
@pytest.mark.parametrize(
    ("images", "tokens", "features"), [(1, 1, 5), (3, 40, 48), (2, 17, 21), (5, 16, 16)]
)
def test_an_embedding_holds_the_rows_of_its_table(
    images, tokens, features, features_first, guarded, view, way
):
    random = np.random.default_rng(tokens)
    table = random.standard_normal((30, features)).astype(np.float32)
    ids = random.integers(0, 30, (images, tokens))
    embedding, out, strides = embedding_of(guarded, view, ids, table, features_first=features_first)
    guarded.run(Kind.EMBEDDING, embedding, way)
    want = np.full(guarded.content(out).shape, GUARD)
    seen(want, (images, tokens, features), strides)[...] = table[ids]
    assert np.array_equal(guarded.content(out), want)


@pytest.mark.parametrize("bad", [-1, 30, 2**40])
def test_an_id_outside_of_the_table_is_an_error(bad, guarded, view, way):
    table = np.zeros((30, 20), np.float32)
    ids = np.zeros((2, 40), np.int64)
    ids[1, 33] = bad
    embedding, out, _ = embedding_of(guarded, view, ids, table, features_first=True)
    with pytest.raises(ValueError, match="outside"):
        guarded.run(Kind.EMBEDDING, embedding, way)
    assert set(guarded.content(out)) <= {0.0, GUARD}
