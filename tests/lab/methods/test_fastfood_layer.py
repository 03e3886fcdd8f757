"""Fastfood is S H G P H B, block by block, and stores three diagonals."""

import pytest
import torch
from torch import nn

from sparsegate_lab.methods.fastfood import FastfoodLayer, Hadamard
from sparsegate_runtime.kernels import KERNELS

with_kernels = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


def fastfood(inputs, out, **settings):
    torch.manual_seed(0)
    return FastfoodLayer(nn.Linear(inputs, out), **settings)


def matrix(layer, block):
    """The product of the paper, written out."""
    n = layer.size
    h = Hadamard(n)(torch.eye(n))
    order = layer.order[block * n : (block + 1) * n] - block * n
    p = torch.eye(n)[order]
    return h @ torch.diag(layer.gains[block]) @ p @ h @ torch.diag(layer.signs[block])


@pytest.mark.parametrize("features", [3, 8, 20])
@torch.no_grad()
def test_it_is_the_product_of_the_paper(features):
    layer = fastfood(6, 5, features=features)
    layer.bias.normal_()
    layer.scales.normal_()
    x = torch.randn(4, 6)
    blocks = [
        nn.functional.pad(x, (0, 2)) @ matrix(layer, block).T for block in range(len(layer.gains))
    ]
    wanted = torch.cat(blocks, 1)[:, :features] * layer.scales + layer.bias
    torch.testing.assert_close(layer(x), wanted, atol=1e-5, rtol=1e-4)


def test_blocks_have_permutations_of_their_own():
    first, second = fastfood(8, 16).order.reshape(2, 8)
    assert sorted(first.tolist()) == list(range(8))
    assert sorted(second.tolist()) == list(range(8, 16))
    assert not torch.equal(first, second - 8)


def test_it_stores_three_diagonals_and_no_permutation():
    layer = fastfood(800, 500, features=1024)
    assert layer.num_values == 3 * 1024
    assert {name: each.numel() for name, each in layer.state_dict().items()} == {
        "signs": 1024, "gains": 1024, "scales": 1024, "bias": 1024,
    }  # fmt: skip
    assert (layer.stands_for, layer.num_indices) == ((500, 800), 0)


def test_what_is_cut_off_is_not_stored():
    # two full diagonals of 8, five scales; no bias
    torch.manual_seed(0)
    assert FastfoodLayer(nn.Linear(6, 5, bias=False)).num_values == 8 + 8 + 5


def test_the_same_seed_gives_the_same_permutation_whatever_the_random_state():
    torch.manual_seed(1)
    one = FastfoodLayer(nn.Linear(8, 8), seed=3)
    other = FastfoodLayer(nn.Linear(8, 8), seed=3)
    assert torch.equal(one.order, other.order)
    assert not torch.equal(one.order, FastfoodLayer(nn.Linear(8, 8), seed=4).order)


def test_it_starts_with_outputs_as_large_as_he_starts_them():
    x = torch.randn(500, 1024)
    assert float(fastfood(1024, 1024)(x).detach().std()) == pytest.approx(2**0.5, rel=0.05)


def test_features_below_one_are_refused():
    with pytest.raises(ValueError, match="features is at least 1, got 0"):
        fastfood(4, 4, features=0)


@with_kernels
@pytest.mark.parametrize(
    ("inputs", "out"), [(1, 1), (2, 3), (6, 20), (9, 16), (16, 16), (17, 70), (800, 1024)]
)
@pytest.mark.parametrize("batch", [(), (0,), (1,), (2, 3)])
@pytest.mark.parametrize("has_bias", [True, False])
@torch.no_grad()
def test_the_kernel_computes_what_torch_computes(inputs, out, batch, has_bias):
    layer = FastfoodLayer(nn.Linear(inputs, out, bias=has_bias))
    for each in layer.parameters():
        each.normal_()
    x = torch.randn(*batch, inputs)
    torch.testing.assert_close(layer.fused(x), layer.plain(x), atol=1e-4, rtol=1e-4)


@with_kernels
@torch.no_grad()
def test_several_threads_compute_the_same():
    layer, x = fastfood(800, 1024), torch.randn(64, 800)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = layer.fused(x)
        torch.set_num_threads(3)
        assert torch.equal(layer.fused(x), alone)
    finally:
        torch.set_num_threads(threads)


@with_kernels
def test_the_kernel_serves_where_no_gradient_is_wanted():
    layer, x = fastfood(800, 1024), torch.randn(5, 1600)[:, ::2]
    with torch.no_grad():
        fused, plain = layer.fused(x), layer.plain(x)
        assert not torch.equal(fused, plain)  # rounded otherwise, so they can be told apart
        assert torch.equal(layer(x), fused)
    assert torch.equal(layer(x), plain)
    assert layer(x).requires_grad


@pytest.mark.parametrize("inputs", [8, 8193])  # the larger is beyond what the kernel serves
@torch.no_grad()
def test_what_the_kernel_does_not_serve_is_computed_by_torch(inputs):
    layer = fastfood(inputs, 4).double() if inputs == 8 else fastfood(inputs, 4)
    x = torch.randn(2, inputs, dtype=layer.scales.dtype)
    assert torch.equal(layer(x), layer.plain(x))


@with_kernels
@torch.no_grad()
def test_the_kernel_is_left_out_of_transforms_and_autocast():
    layer, x = fastfood(8, 8), torch.randn(3, 8)
    torch.testing.assert_close(torch.vmap(layer)(x), layer.plain(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer(x), layer.plain(x))


@with_kernels
@pytest.mark.parametrize(
    ("inputs", "size", "features"), [(3, 3, 1), (5, 4, 1), (4, 16384, 1), (4, 4, 0)]
)
def test_the_kernel_refuses_sizes_that_it_does_not_know(inputs, size, features):
    assert (
        KERNELS.sg_fastfood(None, 1, inputs, size, features, None, None, None, None, None, None, 1)
        == -1
    )


@with_kernels
@torch.no_grad()
def test_a_spoilt_order_reads_nothing_outside():
    layer, x = fastfood(8, 8), torch.randn(2, 8)
    wanted = layer.fused(x)
    layer.order += 8 << 40
    assert torch.equal(layer.fused(x), wanted)
