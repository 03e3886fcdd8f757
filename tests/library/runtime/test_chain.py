"""Chains in C, by every variant that this processor has, against references in float64."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from tests.library.runtime import reference
from torch.nn import functional as F

from sparsegate.runtime import VARIANT, Chain, ChainLayer
from sparsegate.runtime.chain import WORTH_A_THREAD
from sparsegate_runtime.engine.memory import _MEMORY, scratch
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")

VARIANTS = ("plain", "AVX2", "AVX-512")[: VARIANT + 1]
BATCHES = (0, 1, 2, 3, 4, 15, 16, 17, 33, 70)
EXACT = 2**24
every_variant = pytest.mark.parametrize("variant", range(VARIANT + 1), ids=VARIANTS)
every_batch = pytest.mark.parametrize("count", BATCHES, ids="batch {}".format)
with_threads = pytest.mark.parametrize("threads", [1, 2], ids="threads {}".format)
unhurried = settings(deadline=None)


@pytest.fixture(scope="module", autouse=True)
def eager_threads():
    """Lets threads share the work of small layers too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsegate.runtime.chain.WORTH_A_THREAD", 1)
        yield


def size_of(layers, x):
    """The sum of |w||x| behind every output: what rounding is measured by."""
    biases = [None if each.bias is None else each.bias.abs() for each in layers]
    sizes = [
        replace(each, weight=each.weight.abs(), bias=bias)
        for each, bias in zip(layers, biases, strict=True)
    ]
    return reference.chain(sizes, x.abs())


@contextmanager
def torch_threads(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    yield
    torch.set_num_threads(before)


def spoil_memory(size):
    """Gives the next call just the memory that it asks for, for a sanitizer to see its end, and nothing good in it."""
    _MEMORY.size = -1
    scratch(size)
    _MEMORY.array.fill(float("nan"))


def assert_right(layers, x, *, threads=1, whole=False):
    """Every variant: to a hundred thousandth of |w||x|, exactly where all sums are whole numbers that a float holds."""
    chain, want, size = Chain(layers), reference.chain(layers, x), size_of(layers, x)
    exact = whole and size.amax() < EXACT if len(size) else True
    for variant, name in enumerate(VARIANTS):
        spoil_memory(chain._form(len(x)).scratch * threads)
        with torch_threads(threads):
            got = chain(x, variant=variant)
        assert (got.dtype, got.shape) == (torch.float32, want.shape)
        gap = (got - want).abs()
        assert (gap <= (0 if exact else 1e-5 * size)).all(), (
            f"{name} is off by up to {gap.max():.3g}"
        )


def in_layout(x, layout):
    """The same numbers, lying elsewhere in memory."""
    if layout == "channels last":
        return x.contiguous(memory_format=torch.channels_last)
    if layout == "every second":
        return torch.stack([x, x.flip(0)], -1)[..., 0]
    if layout == "turned":
        return x.transpose(2, 3).contiguous().transpose(2, 3)
    return x


LAYOUTS = ("plain", "channels last", "every second", "turned")


anything = given(
    data=st.data(),
    count=st.sampled_from(BATCHES),
    whole=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
)


@unhurried
@anything
def test_any_convolution_gives_what_the_reference_gives(drawn, images, data, count, whole, layout):
    layer = data.draw(drawn["convolution"](whole=whole))
    assert_right([layer], in_layout(images(layer, count, whole=whole), layout), whole=whole)


@unhurried
@anything
def test_any_linear_layer_gives_what_the_reference_gives(drawn, images, data, count, whole, layout):
    layer = data.draw(drawn["linear"](whole=whole))
    assert_right([layer], in_layout(images(layer, count, whole=whole), layout), whole=whole)


@settings(deadline=None, max_examples=examples(200, few=25))
@anything
def test_any_chain_gives_what_the_reference_gives(drawn, images, data, count, whole, layout):
    layers = data.draw(drawn["chain"](whole=whole))
    assert_right(layers, in_layout(images(layers[0], count, whole=whole), layout), whole=whole)


@settings(deadline=None, max_examples=examples(40))
@anything
def test_any_chain_by_several_threads_gives_what_the_reference_gives(
    drawn, images, data, count, whole, layout
):
    layers = data.draw(drawn["chain"](whole=whole))
    threads = data.draw(st.sampled_from((2, 3)))
    assert_right(
        layers,
        in_layout(images(layers[0], count, whole=whole), layout),
        threads=threads,
        whole=whole,
    )


def random(*shape, keep=0.3, seed=0):
    """Whole weights, so many of them kept."""
    made = torch.Generator().manual_seed(seed)
    return (
        torch.randint(-2, 3, shape, generator=made)
        * (torch.rand(shape, generator=made) < keep).float()
    )


def convolution(rows, in_shape, taps=(3, 3), groups=1, **more):
    return ChainLayer(
        random(rows, in_shape[0] // groups, *taps),
        random(rows, keep=1),
        in_shape,
        groups=groups,
        **more,
    )


def linear(rows, columns, **more):
    return ChainLayer(random(rows, columns), random(rows, keep=1), (columns, 1, 1), **more)


def lenet():
    """Two pooled convolutions and two linear layers."""
    first = convolution(5, (1, 20, 20), (5, 5), pool=2, pool_stride=2, relu=True)
    second = convolution(7, first.out_shape, pool=2, pool_stride=2, relu=True)
    third = linear(33, 7 * 3 * 3, relu=True)
    return [first, second, third, linear(10, 33)]


CHAINS = {
    "LeNet": lenet(),
    "three linear": [linear(40, 130, relu=True), linear(17, 40, relu=True), linear(3, 17)],
    "strided after pooled": [
        convolution(4, (3, 17, 23), padding=(1, 1), pool=2, pool_stride=2, relu=True),
        convolution(6, (4, 8, 11), (2, 3), stride=(2, 3), padding=(2, 1)),
        convolution(6, (6, 6, 4), (1, 1), stride=(1, 2), groups=3),
    ],
    "three convolutions": [convolution(3, (3, 9, 9), padding=(1, 1)) for _ in range(3)],
    "straight on": [
        convolution(3, (3, 20, 21), padding=(1, 1), relu=relu) for relu in (True, False, True)
    ],
    "straight on, six wide": [
        convolution(3, (3, 11, 6), padding=(1, 1), relu=relu) for relu in (True, False, True)
    ],
    "straight on, in blocks": [
        convolution(100, (100, 12, 14), padding=(1, 1), relu=relu) for relu in (True, False)
    ],
    "straight on, in narrow blocks": [
        convolution(200, (200, 8, 8), padding=(1, 1), relu=True) for _ in range(2)
    ],
    "phases": [
        convolution(3, (2, 12, 35), padding=(1, 1), relu=True),
        convolution(
            4, (3, 12, 35), padding=(1, 2), stride=(2, 3), relu=True, pool=3, pool_stride=2
        ),
        convolution(2, (4, 2, 6), stride=(1, 4), padding=(1, 1)),
    ],
    "one by one": [
        convolution(19, (12, 5, 7), (1, 1), relu=True),
        convolution(2, (19, 5, 7), (1, 1)),
    ],
}


@with_threads
@every_batch
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_gives_the_reference_at_every_batch(images, name, count, threads):
    layers = CHAINS[name]
    assert_right(layers, images(layers[0], count, whole=True), threads=threads, whole=True)


# A panel's tile has at most 28 positions (6 without AVX-512), the tile of one image 28 * 16 = 448
# (6 * 16).
WIDE = {
    "29 wide": convolution(3, (2, 4, 29), padding=(1, 1)),
    "57 wide": convolution(3, (2, 6, 59), pool=2, pool_stride=2),
    "85 wide, pooled by 3": convolution(3, (2, 5, 85), (1, 2), pool=3, pool_stride=2),
    "449 wide": convolution(2, (1, 1, 449), (1, 1)),
    "1100 wide": convolution(2, (1, 3, 1100), (2, 2), padding=(0, 1), relu=True),
    "1100 wide, strided": convolution(2, (1, 3, 1100), stride=(1, 2)),
    "30 x 30, more than 448 in all": convolution(
        3, (2, 30, 30), padding=(1, 1), pool=2, pool_stride=2
    ),
    "8 wide": convolution(3, (2, 37, 8), padding=(1, 1)),
    "9 wide": convolution(3, (2, 37, 9), padding=(1, 1)),
    "one column": convolution(3, (2, 37, 1), (3, 1), padding=(1, 0)),
    "many blocks of channels": convolution(3, (100, 12, 12), padding=(1, 1)),
}


@with_threads
@pytest.mark.parametrize("count", [1, 2, 17], ids="batch {}".format)
@pytest.mark.parametrize("name", WIDE)
def test_wide_high_and_deep_images_take_several_tiles_and_blocks(images, name, count, threads):
    assert_right([WIDE[name]], images(WIDE[name], count, whole=True), threads=threads, whole=True)


@with_threads
@pytest.mark.parametrize("columns", [1023, 1024, 1025, 1030, 3000])
@pytest.mark.parametrize("count", [1, 16, 33, 64, 129], ids="batch {}".format)
def test_long_vectors_are_taken_in_in_pieces(images, columns, count, threads):
    layer = linear(20, columns)
    assert_right([layer], images(layer, count, whole=True), threads=threads, whole=True)


@pytest.mark.parametrize("count", [1, 2, 16], ids="batch {}".format)
def test_columns_beyond_65536_are_found(images, count):
    weight = torch.zeros(3, 70_000)
    weight[0, 65_535], weight[1, 65_536], weight[2, 69_999] = 1, 2, 3
    layer = ChainLayer(weight, None, (70_000, 1, 1))
    assert_right([layer], images(layer, count, whole=True), whole=True)


@every_variant
@every_batch
@pytest.mark.parametrize("bias", [None, torch.tensor([1.0, -2.0, 0.5])])
def test_layers_without_any_weight_give_their_bias(images, bias, count, variant):
    for layer in (
        ChainLayer(torch.zeros(3, 9), bias, (9, 1, 1), relu=True),
        ChainLayer(torch.zeros(3, 2, 3, 3), bias, (2, 6, 11), relu=True, pool=2, pool_stride=2),
    ):
        got = Chain([layer])(images(layer, count), variant=variant)
        want = (torch.zeros(3) if bias is None else bias.relu()).repeat_interleave(
            got.shape[1] // 3
        )
        assert torch.equal(got, want.expand(count, -1))


@every_variant
def test_the_input_is_not_written_to(images, variant):
    for layers in CHAINS.values():
        for count in (1, 17):
            x = images(layers[0], count)
            before = x.clone()
            Chain(layers)(x, variant=variant)
            assert torch.equal(x, before)


ODD = (float("nan"), float("inf"), -float("inf"))


@every_variant
@pytest.mark.parametrize("relu", [False, True], ids=["plain", "rectified"])
@pytest.mark.parametrize("count", [1, 2, 5, 17, 64], ids="batch {}".format)
@pytest.mark.parametrize("odd", ODD)
def test_nan_and_infinity_come_through_as_in_torch(odd, count, relu, variant):
    weight = random(17, 20, keep=2) + 0.5  # no zeros: torch multiplies those by infinity too
    x = torch.ones(count, 20)
    x[count // 2, 7] = odd
    want = F.linear(x, weight)
    got = Chain([ChainLayer(weight, None, (20, 1, 1), relu=relu)])(x, variant=variant)
    torch.testing.assert_close(got, want.relu() if relu else want, equal_nan=True)


@every_variant
@pytest.mark.parametrize("relu", [False, True], ids=["plain", "rectified"])
@pytest.mark.parametrize("count", [1, 5, 17], ids="batch {}".format)
@pytest.mark.parametrize("width", [6, 20])
@pytest.mark.parametrize("odd", ODD)
def test_a_convolution_lets_nan_and_infinity_through_as_torch_does(
    odd, width, count, relu, variant
):
    weight = random(3, 2, 3, 3, keep=2) + 0.5
    x = torch.ones(count, 2, 6, width)
    x[count // 2, 1, 3, 2] = odd
    want = F.conv2d(x, weight, padding=1)
    got = Chain([ChainLayer(weight, None, (2, 6, width), padding=(1, 1), relu=relu)])(
        x, variant=variant
    )
    torch.testing.assert_close(got.view_as(want), want.relu() if relu else want, equal_nan=True)


@with_threads
@pytest.mark.parametrize("count", [1, 5, 40], ids="batch {}".format)
def test_several_python_threads_may_call_one_chain_at_once(images, count, threads):
    layers = lenet()
    chain, xs = (
        Chain(layers),
        [images(layers[0], count, seed=seed, whole=True) for seed in range(8)],
    )
    with torch_threads(threads), ThreadPoolExecutor(4) as pool:
        got = list(pool.map(chain, xs * 5))
    want = [reference.chain(layers, x) for x in xs]
    assert all(torch.equal(one.double(), want[number % 8]) for number, one in enumerate(got))


def test_threads_with_chains_of_their_own_do_not_share_memory(images):
    def right(name):
        layers = CHAINS[name]
        for count in (1, 16, 33) * 2:
            assert_right(layers, images(layers[0], count, whole=True), whole=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(right, list(CHAINS) * 2))


def test_the_shape_of_a_layer_is_that_of_torch():
    layer = convolution(
        4, (2, 11, 14), (3, 2), stride=(2, 1), padding=(1, 0), pool=3, pool_stride=2
    )
    out = F.max_pool2d(
        F.conv2d(torch.zeros(1, 2, 11, 14), layer.weight, stride=(2, 1), padding=(1, 0)), 3, 2
    )
    assert layer.out_shape == out.shape[1:]
    assert layer.phase(single=False) == (7, 14)  # 13 padded lines in two phases
    assert layer.input_size(single=False) == 2 * 2 * 7 * 14


def test_sums_go_straight_to_a_layer_whose_lines_are_as_long():
    padded, narrow = (
        convolution(2, (2, 20, 30), padding=(1, 1)),
        convolution(2, (2, 5, 6), padding=(1, 1)),
    )
    inside = padded.inside(padded)
    assert len(inside) == 640  # 19 lines of 32 and one of 30, in vectors of sixteen
    assert inside.reshape(20, 32).tolist() == [[-1] * 30 + [0] * 2] * 20
    assert narrow.inside(narrow).tolist() == [-1] * 6 + [0] * 2


@pytest.mark.parametrize(
    ("layer", "after"),
    [
        (convolution(2, (2, 20, 30), padding=(1, 1)), None),
        (convolution(2, (2, 20, 30), padding=(1, 1)), linear(3, 1200)),
        (convolution(2, (2, 20, 30), padding=(1, 1)), convolution(2, (2, 20, 30), (1, 1))),
        (
            convolution(2, (2, 20, 30), padding=(1, 1)),
            convolution(2, (2, 20, 30), padding=(1, 1), stride=(2, 2)),
        ),
        (
            convolution(2, (2, 20, 30), pool=2, padding=(1, 1)),
            convolution(2, (2, 19, 29), padding=(1, 1)),
        ),
        (
            convolution(2, (2, 20, 30), (1, 1)),
            convolution(2, (2, 20, 30)),
        ),  # nothing to write beyond an image's end
        (
            convolution(2, (2, 9, 9), padding=(1, 1)),
            convolution(2, (2, 9, 9), padding=(1, 1)),
        ),  # 15 floats, room for 12
        (
            convolution(2, (2, 5, 3), padding=(0, 1)),
            convolution(2, (2, 3, 3), (1, 17), padding=(0, 9)),
        ),
    ],
)
def test_sums_that_cannot_go_straight_on_are_moved(layer, after):
    assert layer.inside(after) is None


def test_the_lines_of_a_narrow_image_begin_where_those_of_the_cache_do():
    narrow, wide = (
        convolution(1, (2, 10, 10)),
        convolution(1, (2, 10, 11)),
    )  # outputs of eight and of nine in a line
    assert [each.phase(single=True) for each in (narrow, wide)] == [(10, 16), (10, 11)]
    assert narrow.phase(single=False) == (10, 10)


@pytest.mark.parametrize(("rows", "threads"), [(10, 1), (3000, 2)])
def test_a_thread_is_woken_only_where_there_is_work_for_it(images, monkeypatch, rows, threads):
    monkeypatch.setattr("sparsegate.runtime.chain.WORTH_A_THREAD", WORTH_A_THREAD)
    chain = Chain(
        [ChainLayer(torch.ones(rows, 100), None, (100, 1, 1))]
    )  # 1 000 or 300 000 weights
    _MEMORY.size = -1
    with torch_threads(2):
        chain(torch.zeros(1, 100))
    assert _MEMORY.size == threads * chain._form(1).scratch
