"""Attention of one token to a cache, against numpy in float64."""

import numpy as np
import pytest

from sparsegate_runtime.engine.rules_attention import CachedAttention
from sparsegate_runtime.engine.structures import Kind

SIZES = [  # images, heads, kv_heads, features, value_features, past, room
    (1, 1, 1, 1, 1, 0, 16),
    (2, 4, 2, 8, 12, 5, 16),
    (1, 3, 1, 64, 64, 127, 144),
    (1, 2, 2, 33, 70, 300, 320),
    (3, 2, 1, 16, 16, 15, 16),
]
LAYERS, LAYER = 3, 1
SLACK = 64


class Case:
    """A random cache of three layers, and the token that the second one gets."""

    def __init__(self, images, heads, kv_heads, features, value_features, past, room):
        random = np.random.default_rng(past)
        self.sizes = (images, heads, kv_heads, features, value_features)
        self.past, self.room = past, room

        def draw(*shape):
            return random.standard_normal(shape).astype(np.float32)

        self.q = 2 * draw(images, heads, features)
        self.k, self.v = draw(images, kv_heads, features), draw(images, kv_heads, value_features)
        self.keys = np.full((LAYERS, images, kv_heads, features, room), np.nan, np.float32)
        self.values = np.full((LAYERS, images, kv_heads, room, value_features), np.nan, np.float32)
        self.keys[..., :past] = draw(*self.keys.shape)[..., :past]
        self.values[..., :past, :] = draw(*self.values.shape)[..., :past, :]
        self.scale = float(np.float32(features**-0.5))

    def want(self):
        """In float64, [images, heads, features]."""
        _, heads, kv_heads, _, _ = self.sizes
        keys = np.concatenate([self.keys[LAYER, ..., : self.past], self.k[..., None]], -1)
        values = np.concatenate([self.values[LAYER, :, :, : self.past], self.v[:, :, None]], 2)
        keys, values = (
            one.astype(np.float64).repeat(heads // kv_heads, 1) for one in (keys, values)
        )
        scores = self.scale * np.einsum("nhf,nhfk->nhk", self.q.astype(np.float64), keys)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("nhk,nhkf->nhf", powers / powers.sum(-1, keepdims=True), values)

    def run(self, guarded, view, way):
        """The engine's result, and the numbers of the buffers of keys and values."""
        _, heads, _, _, value_features = self.sizes
        views = [
            view(guarded.add(one), (one.shape[1] * one.shape[2], one.shape[2], 1))
            for one in (self.q, self.k, self.v)
        ]
        out = guarded.add_empty(self.q.shape[0] * heads * value_features)
        views.append(view(out, (heads * value_features, value_features, 1)))
        behind = np.full(SLACK, np.nan, np.float32)
        caches = [
            guarded.add(np.concatenate([one.reshape(-1), behind]))
            for one in (self.keys, self.values)
        ]
        state = guarded.add(np.array([self.past, self.room], np.int64))
        attention = CachedAttention(*self.sizes, LAYER, *views, *caches, state, self.scale, 0)
        guarded.run(Kind.CACHED_ATTENTION, attention, way, scratch=attention.scratch)
        return guarded.content(out).reshape(-1, heads, value_features), caches


@pytest.mark.parametrize("sizes", SIZES)
def test_a_token_attends_to_the_cache_and_to_itself(sizes, guarded, view, way):
    case = Case(*sizes)
    got, _ = case.run(guarded, view, way)
    np.testing.assert_allclose(got, case.want(), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("sizes", SIZES)
def test_its_key_and_value_are_all_that_is_written_to_the_cache(sizes, guarded, view, way):
    case = Case(*sizes)
    _, (keys, values) = case.run(guarded, view, way)
    case.keys[LAYER, ..., case.past] = case.k
    case.values[LAYER, :, :, case.past] = case.v
    for number, wanted in ((keys, case.keys), (values, case.values)):
        found = guarded.content(number)[:-SLACK].reshape(wanted.shape)
        np.testing.assert_array_equal(found, wanted)


def test_a_nan_stays_in_its_image_and_head(guarded, view, way):
    case = Case(2, 2, 2, 8, 8, 20, 32)
    want = case.want()
    case.keys[LAYER, 1, 0, 3, 7] = np.nan
    got, _ = case.run(guarded, view, way)
    assert np.isnan(got[1, 0]).all()
    got[1, 0] = want[1, 0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("past", [-1, 16, 17])
def test_a_full_cache_is_an_error(past, guarded, view, way):
    case = Case(1, 1, 1, 4, 4, 3, 16)
    case.past = past
    with pytest.raises(ValueError, match="index"):
        case.run(guarded, view, way)
