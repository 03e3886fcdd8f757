"""Sparse linear layers in Triton, in its interpreter where there is no GPU."""

import copy
from importlib.util import find_spec

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from torch.nn import functional as F

from sparsegate.runtime import pack
from sparsegate.runtime.cuda.cut import Cut, fits
from sparsegate.runtime.cuda.linear import BandLaunch, add_chunks, linear, reference_linear, unpack
from sparsegate.runtime.cuda.tile import Tile

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
slowly = settings(
    max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
ONE = (
    None,
    Tile(4, 16, 1),
    Tile(8, 64, 1),
    Tile(1, 32, 2),
    Tile(2, 16, 1, shared=True),
    Tile(16, 64, 1, shared=True, adjacent=8),
)
CUTS = (Cut(3, 2, 24, 8), Cut(1, 8, 8, 32), Cut(2, 4, 4, 16), Cut(2, 4, 12, 256))
MANY = (
    None,
    Tile(4, 16, 1, images=4),
    Tile(2, 16, 2, images=8, spread=True),
    Tile(1, 16, 1, images=2, spread=True),
)


def layer(rows, columns, keep, dtype, seed=0):
    """Weights of which some are kept, in uneven rows, and biases."""
    generator = torch.Generator().manual_seed(seed)
    uneven = keep ** (0.5 + torch.rand(rows, 1, generator=generator))
    mask = torch.rand(rows, columns, generator=generator) < uneven
    weight = torch.randn(rows, columns, generator=generator) * mask
    return weight.to(DEVICE, dtype), torch.randn(rows, generator=generator).to(DEVICE, dtype)


def assert_near(found, x, weight, bias, relu):
    """As near to a float64 product as the output's dtype allows."""
    wanted = F.linear(x.double(), weight.double(), bias.double())
    size = F.linear(x.double().abs(), weight.double().abs(), bias.double().abs())
    wanted = wanted.relu() if relu else wanted
    room = (
        2 * torch.finfo(found.dtype).eps * wanted.abs()
        + 4 * torch.finfo(torch.float32).eps * size
        + 1e-7
    )
    assert ((found.double() - wanted).abs() <= room).all()


@needs_triton
@slowly
@given(
    st.integers(1, 9),
    st.integers(1, 90),
    st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    st.sampled_from(DTYPES),
    st.booleans(),
    st.sampled_from(ONE),
)
def test_one_image_is_multiplied(rows, columns, keep, dtype, relu, tile):
    weight, bias = layer(rows, columns, keep, dtype)
    x = torch.randn(1, columns, device=DEVICE).to(dtype)
    assert_near(linear(pack(weight, bias, relu=relu), x, tile=tile), x, weight, bias, relu)


@needs_triton
@slowly
@given(
    st.integers(1, 20),
    st.integers(1, 60),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([torch.bfloat16, torch.float16]),
    st.booleans(),
    st.sampled_from(CUTS),
)
def test_one_image_is_multiplied_in_chunks_of_any_cut(rows, columns, keep, dtype, relu, cut):
    weight, bias = layer(rows, columns, keep, dtype)
    assume(fits(cut, (weight != 0).sum(1).cpu().numpy()))
    packed, x = pack(weight, bias, relu=relu), torch.randn(1, columns, device=DEVICE).to(dtype)
    add_chunks(packed, cut=cut)
    assert packed.format is not None
    assert packed.format.cut == cut
    assert_near(packed(x), x, weight, bias, relu)


@pytest.mark.parametrize(
    ("rows", "columns", "cut"), [(20, 49, CUTS[2]), (17, 57, CUTS[2]), (20, 4, Cut(2, 4, 4, 8))]
)
def test_a_cut_without_room_for_all_rows_is_refused(rows, columns, cut):
    weight, bias = layer(rows, columns, 1.0, torch.bfloat16)
    packed = pack(weight, bias, relu=False)
    with pytest.raises(ValueError, match="has no room for the"):
        add_chunks(packed, cut=cut)
    assert packed.format is None


@needs_triton
@pytest.mark.parametrize(
    ("rows", "columns", "cut", "sums"),
    [
        (6, 16, Cut(2, 1, 2, 8), (1, 4, 2)),
        (1, 200, Cut(1, 2, 8, 16), (2, 4, 4)),
        (3, 60, Cut(1, 1, 8, 8), (2, 4, 1)),
    ],
)
def test_chunks_of_a_row_are_added_up_however_a_thread_has_them(rows, columns, cut, sums):
    weight, bias = layer(rows, columns, 1.0, torch.bfloat16)
    packed, x = pack(weight, bias, relu=False), torch.randn(1, columns, device=DEVICE).bfloat16()
    add_chunks(packed, cut=cut)
    assert packed.format is not None
    assert cut.sums(packed.format.longest, columns) == sums
    assert_near(packed(x), x, weight, bias, relu=False)


@needs_triton
def test_a_large_layer_of_uneven_rows_is_multiplied_in_chunks_also_when_it_is_loaded():
    weight, bias = uneven_layer(torch.bfloat16)
    packed, x = (
        pack(weight, bias, relu=True),
        torch.randn(1, weight.shape[1], device=DEVICE).bfloat16(),
    )
    assert packed.format is not None
    assert packed.num_bytes_of_one == packed.chunks.nbytes
    assert "chunks" not in packed.state_dict()
    found = packed(x)
    assert_near(found, x, weight, bias, relu=True)
    other = pack(-weight.flip(0), bias, relu=True)
    other(x)
    other.load_state_dict(packed.state_dict())
    assert torch.equal(other(x), found)
    assert torch.equal(copy.deepcopy(packed)(x), found)


def uneven_layer(dtype):
    """Rows of which one keeps everything, others nothing; enough words for 132 multiprocessors."""
    mask = torch.rand(160, 2000, generator=torch.Generator().manual_seed(0)) < 0.22
    mask[3], mask[5:7], mask[-1] = True, False, False
    weight = torch.randn(mask.shape, generator=torch.Generator().manual_seed(1)) * mask
    return weight.to(DEVICE, dtype), torch.linspace(-1, 1, len(weight)).to(DEVICE, dtype)


def test_what_is_not_faster_in_chunks_has_none():
    weight, bias = layer(20, 30, 0.3, torch.bfloat16)
    small = pack(weight, bias, relu=False)
    assert small.format is None
    assert small.num_bytes_of_one == small.num_bytes
    weight, bias = uneven_layer(torch.float32)  # value and column are no one word
    assert pack(weight, bias, relu=False).format is None
    assert pack(weight.bfloat16(), bias.bfloat16(), relu=False, tile=Tile(4, 16, 1)).format is None


@needs_triton
@pytest.mark.parametrize("tile", [Tile(4, 32, 1, shared=True), Tile(4, 8, 1)])
def test_programs_that_only_fill_the_gpu_write_nothing(tile):
    weight, bias = layer(10, 30, 0.5, torch.float32)
    packed, x = pack(weight, bias, relu=False, tile=tile), torch.randn(1, 30, device=DEVICE)
    plan, out = BandLaunch(packed, x, tile), torch.full((1, 12), 7.0, device=DEVICE)
    plan.multiply.grid = (plan.multiply.grid[0] + 5, 1)
    plan(packed, x, out)
    assert_near(out[:, :10], x, weight, bias, relu=False)
    assert out[0, 10:].tolist() == [7.0, 7.0]


@needs_triton
@slowly
@given(
    st.integers(1, 7),
    st.integers(1, 50),
    st.integers(2, 17),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.sampled_from(DTYPES),
    st.booleans(),
    st.sampled_from(MANY),
)
def test_several_images_are_multiplied(rows, columns, batch, keep, dtype, relu, tile):
    weight, bias = layer(rows, columns, keep, dtype)
    x = torch.randn(batch, columns, device=DEVICE).to(dtype)
    assert_near(linear(pack(weight, bias, relu=relu), x, tile=tile), x, weight, bias, relu)


@needs_triton
@pytest.mark.parametrize("shape", [(0, 20), (20,), (2, 0, 20), (2, 2, 20)])
def test_the_batch_may_have_any_shape_or_be_empty(shape):
    weight, bias = layer(5, 20, 0.4, torch.float32)
    x = torch.randn(shape, device=DEVICE)
    found = pack(weight, bias, relu=False)(x)
    assert found.shape == (*shape[:-1], 5)
    assert_near(found, x, weight, bias, relu=False)


@needs_triton
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("spread", [False, True])
def test_inputs_need_not_be_contiguous(batch, spread):
    weight, bias = layer(5, 20, 0.4, torch.float32)
    whole = torch.randn(40, 2 * batch, device=DEVICE)
    tile = Tile(2, 16, 1, images=1 if batch == 1 else 4, spread=spread)
    for x in (
        whole[:20, :batch].T,
        whole.view(2 * batch, 40)[::2, :20],
        whole.view(2 * batch, 40)[::2, ::2],
    ):
        assert not x.is_contiguous() or batch == 1
        assert_near(
            linear(pack(weight, bias, relu=False), x, tile=tile), x, weight, bias, relu=False
        )


@needs_triton
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("where", [7, 0])
def test_an_infinite_input_reaches_only_the_outputs_that_read_it(batch, dtype, where):
    weight = torch.zeros(3, 8, device=DEVICE, dtype=dtype)
    weight[0, 3], weight[1, 1:6], weight[2, where] = 2.0, 1.0, 1.0
    x = torch.ones(batch, 8, device=DEVICE, dtype=dtype)
    x[:, where] = float("inf")
    found = pack(weight, None, relu=False)(x)
    assert found[:, :2].tolist() == [[2.0, 5.0]] * batch
    assert not found[:, 2].isfinite().any()


@needs_triton
@pytest.mark.parametrize("where", [7, 0])
@pytest.mark.parametrize("cut", CUTS)
def test_an_infinite_input_reaches_only_the_rows_whose_chunks_read_it(where, cut):
    weight = torch.zeros(4, 8, device=DEVICE, dtype=torch.bfloat16)
    weight[0, 3], weight[1, 1:6], weight[3, where] = 2.0, 1.0, 1.0
    x = torch.ones(8, device=DEVICE, dtype=torch.bfloat16)
    x[where] = float("inf")
    packed = pack(weight, None, relu=False)
    add_chunks(packed, cut=cut)
    found = packed(x)
    assert found[:3].tolist() == [2.0, 5.0, 0.0]
    assert not found[3].isfinite()


@needs_triton
def test_relu_lets_nan_through():
    packed = pack(torch.eye(4, device=DEVICE), None, relu=True)
    found = packed(torch.tensor([float("nan"), -1.0, 0.0, 2.0], device=DEVICE))
    assert found[0].isnan()
    assert found[1:].tolist() == [0.0, 0.0, 2.0]


@needs_triton
def test_more_columns_than_16_bits_can_count_work():
    weight = torch.zeros(2, 70_000, device=DEVICE, dtype=torch.bfloat16)
    weight[0, 69_999], weight[1, 3] = 2.0, -1.0
    x = torch.zeros(1, 70_000, device=DEVICE, dtype=torch.bfloat16)
    x[0, 69_999], x[0, 3] = 3.0, 5.0
    assert pack(weight, None, relu=False)(x).tolist() == [[6.0, -5.0]]


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_copy_and_a_loaded_state_compute_the_same(dtype):
    weight, bias = layer(6, 30, 0.3, dtype)
    packed, x = pack(weight, bias, relu=True), torch.randn(1, 30, device=DEVICE).to(dtype)
    other = pack(2 * weight, torch.zeros_like(bias), relu=True)
    other(x)
    other.load_state_dict(packed.state_dict())
    assert torch.equal(copy.deepcopy(packed)(x), packed(x))
    assert torch.equal(other(x), packed(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("keep", [0.0, 0.05, 1.0])
def test_unpacking_gives_the_weights_back(keep, dtype):
    weight, bias = layer(37, 130, keep, dtype)
    found, found_bias = unpack(pack(weight, bias, relu=False))
    assert torch.equal(found, weight)
    assert torch.equal(found_bias, bias.float())


@pytest.mark.parametrize("relu", [False, True])
def test_the_reference_is_the_layer(relu):
    weight, bias = layer(9, 20, 0.3, torch.float32)
    x = torch.randn(2, 3, 20, device=DEVICE)
    assert_near(reference_linear(pack(weight, bias, relu=relu), x), x, weight, bias, relu)


def test_a_layer_without_rows_or_columns_can_be_packed():
    assert reference_linear(pack(torch.zeros(0, 3), None, relu=False), torch.ones(2, 3)).shape == (
        2,
        0,
    )
    assert (
        reference_linear(
            pack(torch.zeros(3, 0), torch.ones(3), relu=False), torch.ones(2, 0)
        ).tolist()
        == [[1.0] * 3] * 2
    )


def test_wrong_inputs_are_refused_before_anything_is_read():
    packed = pack(torch.eye(4, device=DEVICE), None, relu=False)
    with pytest.raises(ValueError, match=r"expected 4 inputs in axis -1, got the shape \(2, 5\)"):
        packed(torch.zeros(2, 5, device=DEVICE))
    with pytest.raises(
        ValueError, match=r"expected an input of .*float32.* got .*float16.*; convert"
    ):
        packed(torch.zeros(2, 4, device=DEVICE, dtype=torch.float16))
    with pytest.raises(ValueError, match=r"for inference, .* use torch.no_grad"):
        packed(torch.zeros(2, 4, device=DEVICE, requires_grad=True))


def test_without_a_gpu_or_the_interpreter_the_reference_is_named(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="run on CUDA, got a tensor on cpu; use the reference"):
        pack(torch.eye(4), None, relu=False)(torch.zeros(1, 4))


@pytest.mark.skipif(find_spec("triton") is not None, reason="Triton is installed")
def test_without_triton_the_extra_is_named():
    with pytest.raises(ImportError, match=r"sparsegate\[gpu\]"):
        pack(torch.eye(4), None, relu=False)(torch.zeros(1, 4))
