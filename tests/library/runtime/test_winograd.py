"""Winograd's convolution, by every variant that this processor has, against references in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from tests.library.runtime import reference

from sparsegate.runtime import VARIANT, ChainLayer
from sparsegate.runtime.winograd import Winograd, back, fits_winograd, inputs_forth, weights_forth
from sparsegate_runtime.engine.memory import _MEMORY, scratch
from sparsegate_runtime.kernels import KERNELS

needs_kernels = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


@st.composite
def convolutions(draw):
    """What the kernel can run, with pools that it can."""
    taps, rows, channels = (
        draw(st.sampled_from((3, 5))),
        *(16 * draw(st.sampled_from((1, 2, 3))) for _ in "ab"),
    )
    padding = (draw(st.integers(0, 3)), draw(st.integers(0, 2)))
    size = tuple(draw(st.integers(max(2, taps + 1 - 2 * pad), 21)) for pad in padding)
    made = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    weight = torch.randn(rows, channels, taps, taps, generator=made)
    bias = torch.randn(rows, generator=made) if draw(st.booleans()) else None
    pool, relu = draw(st.sampled_from((1, 2))), draw(st.booleans())
    return ChainLayer(
        weight, bias, (channels, *size), padding=padding, pool=pool, pool_stride=pool, relu=relu
    )


def spoil_memory(size):
    """Just the memory that is asked for, with nothing good in it."""
    _MEMORY.size = -1
    scratch(size)
    _MEMORY.array.fill(float("nan"))


tiles = pytest.mark.parametrize("tile", [6, 8])


@tiles
@pytest.mark.parametrize("taps", [3, 5])
def test_the_three_matrices_make_a_convolution(tile, taps):
    line, weights = (
        np.random.default_rng(0).normal(size=tile),
        np.random.default_rng(1).normal(size=taps),
    )
    got = back(tile, taps) @ ((inputs_forth(tile) @ line) * (weights_forth(tile, taps) @ weights))
    np.testing.assert_allclose(got, np.correlate(line, weights), atol=1e-12)


@tiles
@settings(max_examples=examples(6), deadline=None)
@given(layer=convolutions())
def test_the_reference_is_the_convolution(images, layer, tile):
    x = images(layer, 2)
    want = reference.chain([layer], x)
    assert torch.allclose(reference.winograd(layer, x, tile), want, rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module", autouse=True)
def eager_threads():
    """Lets threads share the work of small layers too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsegate.runtime.winograd.WORTH_A_THREAD", 1)
        yield


@needs_kernels
@pytest.mark.parametrize("threads", [1, 2], ids="threads {}".format)
@settings(max_examples=examples(15), deadline=None)
@given(layer=convolutions(), count=st.sampled_from((0, 1, 2, 5)), tile=st.sampled_from((6, 8)))
def test_every_variant_is_within_a_ten_thousandth_of_the_reference(
    images, layer, count, tile, threads
):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    x, conv = images(layer, count), Winograd(layer, tile)
    want = reference.winograd(layer, x, tile)
    for variant in range(VARIANT + 1):
        spoil_memory(conv.scratch * threads)
        got = conv(x, variant=variant)
        assert got.shape == (count, *layer.out_shape)
        assert count == 0 or float((got.flatten(1) - want).abs().max()) <= 1e-4 * float(
            want.abs().max()
        )
    torch.set_num_threads(before)


@needs_kernels
@tiles
def test_many_blocks_and_many_channels_stay_within_a_ten_thousandth(tile):
    torch.manual_seed(0)
    layer = ChainLayer(
        torch.randn(48, 512, 3, 3), torch.randn(48), (512, 30, 30), padding=(1, 1), relu=True
    )
    x = torch.randn(2, 512, 30, 30)
    want = reference.chain([layer], x)
    assert float((Winograd(layer, tile)(x).flatten(1) - want).abs().max() / want.max()) < 1e-4


@needs_kernels
@pytest.mark.parametrize(("tile", "taps", "size"), [(6, 3, 13), (6, 5, 8), (8, 3, 7), (8, 5, 13)])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e38, 1e5])
@pytest.mark.parametrize("threads", [1, 2], ids="threads {}".format)
def test_no_image_changes_another_of_its_batch(images, tile, taps, size, bad, threads):
    layer = ChainLayer(
        torch.randn(16, 16, taps, taps), None, (16, size, size), padding=(taps // 2, taps // 2)
    )
    conv, x = Winograd(layer, tile), images(layer, 9)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    for variant in range(VARIANT + 1):
        want, spoiled = conv(x, variant=variant), x.clone()
        spoiled[4] = bad
        got = conv(spoiled, variant=variant)
        others = [0, 1, 2, 3, 5, 6, 7, 8]
        assert torch.equal(got[others], want[others])
        assert not torch.equal(got[4], want[4])
    torch.set_num_threads(before)


@needs_kernels
def test_inputs_in_any_layout_are_taken(images):
    layer = ChainLayer(torch.randn(16, 16, 3, 3), None, (16, 8, 9))
    x = images(layer, 3)
    strided = torch.randn(3, 32, 8, 9)[:, ::2].copy_(x)
    want = Winograd(layer, 8)(x)
    assert want.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(Winograd(layer, 8)(strided), want)


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((16, 16, 3, 3), {"stride": (2, 1)}),
        ((16, 16, 3, 3), {"dilation": (1, 2)}),
        ((16, 16, 3, 3), {"groups": 2}),
        ((16, 16, 3, 5), {}),
        ((16, 16, 7, 7), {}),
        ((16, 15, 3, 3), {}),
        ((15, 16, 3, 3), {}),
        ((16, 16), {}),
    ],
)
def test_what_the_kernel_cannot_run_does_not_fit(shape, settings):
    assert fits_winograd(ChainLayer(torch.zeros(16, 16, 3, 3), None, (16, 9, 9)))
    assert not fits_winograd(ChainLayer(torch.zeros(shape), None, (shape[1], 9, 9), **settings))
