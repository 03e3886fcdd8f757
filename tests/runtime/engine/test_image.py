"""Pools and interpolation, against numpy in float64."""

import numpy as np
import pytest

from sparsegate_runtime.engine.structures import Kind, Place, Pool, Upsample

GUARD = np.float32(-12345.5)


def int32(values):
    """An array of 32-bit integers."""
    return np.ascontiguousarray(values, np.int32)


def pool_of(way, guarded, source, offsets, begin, end, *, largest, scale=None, inside=None):
    """The output of a pool over [channels, positions], guard values where it wrote nothing."""
    channels, stride = source.shape
    taps = int32([4 * offset for offset in offsets])
    before, after = guarded.add(source), guarded.add_empty(channels * stride)
    pool = Pool(
        channels,
        len(taps),
        largest,
        taps.ctypes.data,
        None if scale is None else scale.ctypes.data,
        Place(before, 0, stride),
        Place(after, 0, stride),
        None if inside is None else inside.ctypes.data,
    )
    guarded.run(Kind.POOL, pool, way, begin=begin, end=end)
    return guarded.content(after).reshape(channels, stride)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("channels", "stride", "begin", "end", "offsets"),
    [
        (3, 90, 20, 61, [-20, -1, 0, 7, 20]),
        (1, 1400, 9, 1300, [0, 1, 30, 31]),
        (5, 40, 3, 10, [0]),
        (2, 50, 4, 36, [4, 0, -4]),
    ],
)
def test_a_pool_is_the_largest_or_the_mean_of_its_taps(
    channels, stride, begin, end, offsets, largest, guarded, way
):
    random = np.random.default_rng(stride)
    source = random.standard_normal((channels, stride)).astype(np.float32)
    taps = np.stack([source[:, begin + k : end + k] for k in offsets]).astype(np.float64)
    got = pool_of(way, guarded, source, offsets, begin, end, largest=largest)
    want = taps.max(0) if largest else taps.mean(0)
    np.testing.assert_allclose(got[:, begin:end], want, rtol=1e-5, atol=1e-6)
    assert (got[:, :begin] == GUARD).all()
    assert (got[:, end:] == GUARD).all()


def test_a_mean_counts_by_position_and_is_zero_outside(guarded, way):
    random = np.random.default_rng(0)
    source = random.standard_normal((2, 60)).astype(np.float32)
    scale = random.random(41).astype(np.float32)
    inside = int32(np.where(random.random(41) < 0.5, -1, 0))
    got = pool_of(way, guarded, source, [0, 5], 2, 41, largest=False, scale=scale, inside=inside)[
        :, 2:41
    ]
    want = (source[:, 2:41].astype(np.float64) + source[:, 7:46]) * scale[2:] * (inside[2:] != 0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_the_largest_of_a_nan_is_a_nan(where, guarded, way):
    source = np.zeros((1, 60), np.float32)
    source[0, 20 + where] = np.nan
    got = pool_of(way, guarded, source, [0, 1, 2], 0, 40, largest=True)
    assert np.isnan(got[0]).nonzero()[0].tolist() == [18 + where, 19 + where, 20 + where]


class Interpolation:
    """The source pixels and weights of one axis."""

    def __init__(self, source, target, *, nearest):
        place = np.maximum((np.arange(target) + 0.5) * source / target - 0.5, 0)
        if nearest:
            place = np.arange(target) * source // target
        self.first = int32(np.floor(place))
        self.second = int32(np.minimum(self.first + (not nearest), source - 1))
        self.weight = np.ascontiguousarray(place - self.first, np.float32)

    def along(self, array, axis):
        """Interpolates in float64."""
        first, second = array.take(self.first, axis), array.take(self.second, axis)
        weight = np.expand_dims(self.weight.astype(np.float64), (0, 1, 5 - axis))
        return first * (1 - weight) + second * weight

    def addresses(self):
        """For the structure."""
        return (self.first.ctypes.data, self.second.ctypes.data, self.weight.ctypes.data)


@pytest.mark.parametrize("nearest", [True, False])
@pytest.mark.parametrize("last", ["width", "channels"])
@pytest.mark.parametrize(
    ("images", "channels", "size", "target"),
    [
        (2, 3, (5, 7), (10, 14)),
        (1, 4, (16, 16), (37, 50)),
        (1, 1, (9, 40), (4, 11)),
        (1, 1, (2, 2500), (3, 2600)),
        (1, 2, (1, 1), (3, 5)),
    ],
)
def test_interpolation_is_that_of_numpy(
    images, channels, size, target, last, nearest, guarded, view, way
):
    random = np.random.default_rng(size[1])
    source = random.standard_normal((images, channels, *size)).astype(np.float32)
    lines = Interpolation(size[0], target[0], nearest=nearest)
    pixels = Interpolation(size[1], target[1], nearest=nearest)

    def strides(height, width):
        if last == "channels":
            return (height * width * channels, 1, width * channels, channels)
        return (height * width * channels, height * width, width, 1)

    stored = source.transpose(0, 2, 3, 1) if last == "channels" else source
    before = guarded.add(stored)
    after = guarded.add_empty(images * channels * target[0] * target[1])
    upsample = Upsample(
        images,
        channels,
        *target,
        view(before, strides(*size)),
        view(after, strides(*target)),
        *lines.addresses(),
        *pixels.addresses(),
    )
    guarded.run(Kind.UPSAMPLE, upsample, way)
    want = pixels.along(lines.along(source.astype(np.float64), 2), 3)
    got = np.lib.stride_tricks.as_strided(
        guarded.content(after), want.shape, [4 * step for step in strides(*target)]
    )
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_nearest_keeps_an_infinity(guarded, view, way):
    source = np.array([[np.inf, 1], [2, 3]], np.float32)
    axis = Interpolation(2, 4, nearest=True)
    before, after = guarded.add(source), guarded.add_empty(16)
    views = (view(before, (4, 4, 2, 1)), view(after, (16, 16, 4, 1)))
    upsample = Upsample(1, 1, 4, 4, *views, *axis.addresses(), *axis.addresses())
    guarded.run(Kind.UPSAMPLE, upsample, way)
    want = source.repeat(2, 0).repeat(2, 1)
    assert np.array_equal(guarded.content(after).reshape(4, 4), want)
