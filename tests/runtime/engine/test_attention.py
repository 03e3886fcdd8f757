"""Attention and products of activations, against numpy in float64."""

import ctypes

import numpy as np
import pytest

from sparsegate_runtime.engine.structures import Attention, Kind, MatrixMultiply

GUARD = np.float32(-12345.5)
NONE, ADDED, BYTES = range(3)


def seen(memory, shape, strides):
    return np.lib.stride_tricks.as_strided(memory, shape, [4 * stride for stride in strides])


@pytest.mark.parametrize(
    ("batch", "rows", "inner", "columns", "a_transposed"),
    [
        ((1, 1, 1), 1, 1, 1, False),
        ((2, 3, 2), 7, 5, 33, True),
        ((1, 2, 1), 25, 300, 70, False),
        ((1, 1, 1), 50, 70, 130, True),
        ((1, 1, 3), 13, 9, 15, False),
        ((1, 2, 2), 6, 40, 63, True),
        ((2, 1, 1), 5, 0, 20, False),
        ((1, 1, 1), 3, 600, 79, True),
    ],
)
def test_a_product_of_activations_is_that_of_numpy(
    batch, rows, inner, columns, a_transposed, guarded, view, way
):
    random = np.random.default_rng(rows)
    shapes = ((*batch, rows, inner), (*batch, inner, columns))
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    count, line = int(np.prod(batch)), columns + 3
    stored = a.swapaxes(-1, -2) if a_transposed else a
    a_steps = (1, rows) if a_transposed else (inner, 1)
    outer = (batch[1] * batch[2], batch[2], 1)
    out = guarded.add_empty(count * rows * line)
    product = MatrixMultiply(
        (ctypes.c_int64 * 3)(*batch),
        rows,
        inner,
        columns,
        view(guarded.add(stored), (*(step * rows * inner for step in outer), *a_steps)),
        view(guarded.add(b), (*(step * inner * columns for step in outer), columns, 1)),
        view(out, (*(step * rows * line for step in outer), line, 1)),
        0.5,
    )
    guarded.run(Kind.MATRIX_MULTIPLY, product, way)
    got = guarded.content(out).reshape(*batch, rows, line)
    want = 0.5 * (a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_allclose(got[..., :columns], want, rtol=1e-5, atol=1e-5 * inner**0.5)
    assert (got[..., columns:] == GUARD).all()


class Case:
    """A random attention: arrays [image, head, feature, token], with gaps between features."""

    def __init__(self, seed, images, heads, kv_heads, queries, keys, features, value_features):
        self.sizes = (images, heads, kv_heads, queries, keys, features, value_features)
        random = np.random.default_rng(seed)
        self.random = random

        def draw(heads, features, tokens):
            return random.standard_normal((images, heads, features, tokens)).astype(np.float32)

        self.q = 2 * draw(heads, features, queries)
        self.k, self.v = draw(kv_heads, features, keys), draw(kv_heads, value_features, keys)
        self.scale = float(np.float32(features**-0.5))
        self.mask, self.kind = None, NONE

    def want(self, *, causal):
        """The result in float64, zeros for queries that see no key."""
        _, heads, kv_heads, queries, keys, _, _ = self.sizes
        k, v = (x.astype(np.float64).repeat(heads // kv_heads, 1) for x in (self.k, self.v))
        scores = self.scale * np.einsum("nhfq,nhfk->nhqk", self.q.astype(np.float64), k)
        if self.kind == ADDED:
            scores = scores + self.mask
        if self.kind == BYTES:
            scores = np.where(self.mask != 0, scores, -np.inf)
        if causal:
            hidden = np.arange(keys) > np.arange(queries)[:, None] + keys - queries
            scores = np.where(hidden, -np.inf, scores)
        most = scores.max(-1, keepdims=True, initial=-np.inf)
        powers = np.exp(scores - np.where(np.isneginf(most), 0, most))
        total = powers.sum(-1, keepdims=True)
        weights = np.where(total == 0, 0, powers / np.where(total == 0, 1, total))
        return np.einsum("nhqk,nhfk->nhfq", weights, v)

    def got(self, guarded, view, way, *, causal):
        """The engine's result; fails if the gaps between features were written."""
        images, heads, _, queries, _, _, value_features = self.sizes
        views = []
        for array in (self.q, self.k, self.v):
            _, num_heads, features, tokens = array.shape
            line = tokens + 3
            memory = np.full((*array.shape[:3], line), np.nan, np.float32)  # gaps do not count
            memory[..., :tokens] = array
            strides = (num_heads * features * line, features * line, line, 1)
            views.append(view(guarded.add(memory), strides))
        line = queries + 5
        out = guarded.add_empty(images * heads * value_features * line)
        views.append(view(out, (heads * value_features * line, value_features * line, line, 1)))
        views.append(self.mask_view(guarded, view))
        attention = Attention(*self.sizes, *views, self.kind, causal, self.scale)
        guarded.run(Kind.ATTENTION, attention, way, scratch=attention.scratch)
        got = guarded.content(out).reshape(images, heads, value_features, line)
        assert (got[..., queries:] == GUARD).all()
        return got[..., :queries]

    def mask_view(self, guarded, view):
        """The mask by the strides that numpy broadcasts it with."""
        if self.kind == NONE:
            return view(-1, ())
        images, heads, _, queries, keys, _, _ = self.sizes
        size = self.mask.itemsize
        wide = np.broadcast_to(self.mask, (images, heads, queries, keys))
        padded = np.concatenate([self.mask.reshape(-1).view(np.uint8), np.zeros(4, np.uint8)])
        number = guarded.add(padded[: len(padded) // 4 * 4])
        return view(number, [stride // size for stride in wide.strides])

    def check(self, guarded, view, way, *, causal=False):
        """Compares every element."""
        got = self.got(guarded, view, way, causal=causal)
        np.testing.assert_allclose(got, self.want(causal=causal), rtol=1e-4, atol=2e-6)


SIZES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 3, 1, 5, 7, 4, 9),
    (1, 2, 2, 16, 16, 16, 16),
    (1, 4, 2, 67, 67, 8, 13),
    (2, 2, 2, 33, 200, 32, 32),
    (1, 1, 1, 150, 390, 20, 7),
    (1, 2, 1, 1, 131, 64, 64),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_attention_is_that_of_numpy(sizes, causal, guarded, view, way):
    Case(1, *sizes).check(guarded, view, way, causal=causal)


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 3), (2, 3), (1, 2), ()])
@pytest.mark.parametrize("kind", [ADDED, BYTES])
@pytest.mark.parametrize("sizes", [SIZES[1], SIZES[3], SIZES[4]])
def test_a_mask_of_any_strides_is_added_or_excludes(sizes, kind, axes, guarded, view, way):
    case = Case(2, *sizes)
    whole = (sizes[0], sizes[1], sizes[3], sizes[4])
    shape = [size if axis in axes else 1 for axis, size in enumerate(whole)]
    keep = case.random.random(shape) < 0.7
    summand = case.random.standard_normal(shape).astype(np.float32)
    case.kind, case.mask = kind, keep.astype(np.uint8)
    if kind == ADDED:
        case.mask = np.where(keep, summand, np.float32(-np.inf))
    case.check(guarded, view, way, causal=len(axes) == 2)


def test_more_queries_than_keys_leave_zeros_for_those_that_see_none(guarded, view, way):
    case = Case(3, 1, 2, 2, 40, 9, 8, 8)
    got = case.got(guarded, view, way, causal=True)
    assert (got[..., :31] == 0).all()
    np.testing.assert_allclose(got, case.want(causal=True), rtol=1e-4, atol=2e-6)


def test_without_keys_the_result_is_zero(guarded, view, way):
    assert (Case(3, 1, 2, 2, 20, 0, 8, 8).got(guarded, view, way, causal=False) == 0).all()


def test_scores_may_be_large(guarded, view, way):
    case = Case(4, 1, 1, 1, 20, 300, 8, 8)
    case.q *= 100
    case.k *= 100
    case.check(guarded, view, way)


def test_a_nan_stays_in_its_image_and_head(guarded, view, way):
    case = Case(5, 2, 3, 3, 37, 150, 8, 10)
    want = case.want(causal=False)
    case.k[1, 1, 3, 140] = np.nan
    got = case.got(guarded, view, way, causal=False)
    assert np.isnan(got[1, 1]).all()
    got[1, 1] = want[1, 1]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00101])
def test_a_nan_of_a_query_stays_there(bits, guarded, view, way):
    case = Case(6, 1, 1, 1, 37, 150, 8, 10)
    want = case.want(causal=False)
    case.q[0, 0, 3, 20] = np.uint32(bits).view(np.float32)
    got = case.got(guarded, view, way, causal=False)
    assert np.isnan(got[..., 20]).all()
    got[..., 20] = want[..., 20]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6)
