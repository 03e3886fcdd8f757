"""Layer, RMS and group norms, as numpy has them in double precision."""

import numpy as np
import pytest

from sparsegate_runtime.engine.structures import ChannelNorm, GroupNorm, Kind, Place

GUARD = np.float32(-12345.5)
EPS = 1e-5


def normed(x, axes, *, rms=False):
    x = x.astype(np.float64)
    mean = 0 if rms else x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + EPS)


def pointer(array):
    return None if array is None else array.ctypes.data


@pytest.mark.parametrize("case", range(30))
def test_a_norm_over_channels(case, guarded, way):
    random = np.random.default_rng(case)
    channels = int(random.choice([1, 3, 16, 40, 200]))
    positions = int(random.choice([1, 7, 16, 50, 128, 300]))
    stride, out_stride = positions + random.integers(0, 40, 2)
    begin = int(random.integers(0, positions)) if case % 3 == 0 else 0
    end = int(random.integers(begin + 1, positions + 1)) if case % 3 == 0 else positions
    x = (random.standard_normal((channels, stride)) * 3 + 50 * (case % 2)).astype(np.float32)
    weight, bias = random.standard_normal((2, channels)).astype(np.float32)
    weight, bias = weight if case % 4 else None, bias if case % 5 else None
    inside = -random.integers(0, 2, positions).astype(np.int32) if case % 2 else None
    before, after = guarded.add(x), guarded.add_empty(channels * out_stride)
    places = Place(before, 0, stride), Place(after, 0, out_stride)
    pointers = pointer(weight), pointer(bias)
    padded = None if inside is None else np.pad(inside, (0, 64))  # plans add more than that
    of = ChannelNorm(channels, case % 7 == 0, EPS, 0, *pointers, *places, pointer(padded))
    guarded.run(Kind.CHANNEL_NORM, of, way, begin=begin, end=end)
    y = normed(x[:, :positions], 0, rms=case % 7 == 0)
    y = y * (1 if weight is None else weight[:, None]) + (0 if bias is None else bias[:, None])
    if inside is not None:
        y = np.where(inside, y, 0)
    want = np.full((channels, out_stride), GUARD)
    want[:, begin:end] = y[:, begin:end]
    found = guarded.content(after).reshape(want.shape)
    assert np.allclose(found, want, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("rms", [0, 1])
@pytest.mark.parametrize("channels", [1, 5, 16, 100])
def test_a_norm_of_one_position_whose_channels_are_neighbours(channels, rms, guarded, way):
    random = np.random.default_rng(channels)
    x, weight, bias = random.standard_normal((3, channels)).astype(np.float32)
    before, after = guarded.add(x), guarded.add_empty(channels)
    places = Place(before, 0, 1), Place(after, 0, 1)
    of = ChannelNorm(channels, rms, EPS, 0, pointer(weight), pointer(bias), *places, None)
    guarded.run(Kind.CHANNEL_NORM, of, way, end=1)
    want = normed(x, 0, rms=rms) * weight + bias
    assert np.allclose(guarded.content(after), want, rtol=1e-5, atol=1e-6)


def test_a_norm_in_place_keeps_a_nan_to_its_position(guarded, way):
    x = np.random.default_rng(0).standard_normal((20, 45)).astype(np.float32)
    x[3, 17] = np.nan
    memory = guarded.add(x)
    of = ChannelNorm(20, 0, EPS, 0, None, None, Place(memory, 0, 45), Place(memory, 0, 45), None)
    guarded.run(Kind.CHANNEL_NORM, of, way, end=45)
    found = guarded.content(memory).reshape(20, 45)
    assert np.isnan(found).any(0).nonzero()[0].tolist() == [17]
    rest = np.arange(45) != 17
    assert np.allclose(found[:, rest], normed(x[:, rest], 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", range(20))
def test_a_group_norm(case, guarded, view, way):
    random = np.random.default_rng(case)
    images, groups = int(random.integers(1, 4)), int(random.choice([1, 2, 4]))
    channels, lines = groups * int(random.integers(1, 5)), int(random.integers(1, 9))
    width = int(random.choice([1, 7, 16, 33, 70]))
    room = [width + case % 3 * int(random.integers(0, 5)) for _ in range(2)]
    x = random.standard_normal((images, channels, lines, room[0])) * 3 + 10
    x = x.astype(np.float32)
    weight, bias = random.standard_normal((2, channels)).astype(np.float32)
    weight, bias = weight if case % 4 else None, bias if case % 5 else None
    want = np.full((images, channels, lines, room[1]), GUARD)
    before, after = guarded.add(x), guarded.add_empty(want.size)
    views = [
        view(memory, [channels * lines * line, lines * line, line])
        for memory, line in zip((before, after), room, strict=True)
    ]
    sizes, pointers = (images, channels, groups, lines, width), (pointer(weight), pointer(bias))
    guarded.run(Kind.GROUP_NORM, GroupNorm(*sizes, EPS, 0, *pointers, *views), way)
    grouped = x[..., :width].reshape(images, groups, -1)
    y = normed(grouped, 2).reshape(images, channels, lines, width)
    y = y * (1 if weight is None else weight[:, None, None])
    want[..., :width] = y + (0 if bias is None else bias[:, None, None])
    assert np.allclose(guarded.content(after).reshape(want.shape), want, rtol=1e-5, atol=1e-5)
