"""The container .sg is lossless, tight, and refuses what is damaged."""

import contextlib
import zlib
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from torch import nn

from sparsegate.files import compress, encode_sg, load, position_entropy, quantise_
from sparsegate.files.tensors import to_elements
from sparsegate_lab.models import LeNet5
from sparsegate_runtime.files.sg.bytestream import varint

KINDS = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


def sparse(*shape, keep=0.1, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    weight = torch.randn(shape, generator=drawn)
    return torch.where(torch.rand(shape, generator=drawn) < keep, weight, 0.0)


def through(state, folder):
    compress(state).save(folder / "network.sg")
    return load(folder / "network.sg").state_dict()


def assert_same_bits(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert to_elements(one).bits.tobytes() == to_elements(other).bits.tobytes()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 0), (5, 9), (4, 3, 2, 2)], ids=str)
def test_every_type_and_shape_comes_back_bit_for_bit(kind, shape, tmp_path):
    state = {"w": (10 * sparse(*shape, keep=0.5)).to(kind), "other": torch.ones(3)}
    back = through(state, tmp_path)
    assert list(back) == list(state)
    for name in state:
        assert_same_bits(state[name], back[name])


def test_odd_floats_come_back(tmp_path):
    odd = torch.tensor([[0.0, float("nan"), float("inf"), -float("inf"), 1e-45, -1e-45]])
    assert_same_bits(odd, through({"w": odd}, tmp_path)["w"])


def test_negative_zeros_are_zeros(tmp_path):
    weight = torch.tensor([[1.0, -0.0, 0.0]])
    assert_same_bits(weight.abs(), through({"w": weight}, tmp_path)["w"])
    assert compress({"w": weight}).entries["w"].kept == 1


@settings(max_examples=examples(40), deadline=None)
@given(
    rows=st.integers(1, 30),
    columns=st.integers(1, 30),
    keep=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_any_matrix_comes_back(rows, columns, keep, seed, tmp_path_factory):
    weight = sparse(rows, columns, keep=keep, seed=seed)
    weight[seed % rows] = 0
    assert_same_bits(weight, through({"w": weight}, tmp_path_factory.mktemp("any"))["w"])


def test_tied_tensors_are_stored_once_and_come_back_tied(tmp_path):
    weight = sparse(20, 30)
    back = through({"a": weight, "b": torch.ones(2), "c": weight}, tmp_path)
    assert back["a"] is back["c"]
    alone = len(encode_sg(*_parts({"a": weight, "b": torch.ones(2)}))[0])
    assert len(encode_sg(*_parts({"a": weight, "b": torch.ones(2), "c": weight}))[0]) < alone + 20


def _parts(state):
    packed = compress(state)
    return packed.entries, packed.same


def test_the_tensors_of_lenet5_are_listed_in_thirty_bytes_in_the_order_given(tmp_path):
    state = LeNet5().state_dict()
    content, _ = encode_sg(*_parts(state))
    assert content[:3] == b"sg\x03"
    assert b"conv1" in content[:40]  # the next names are coded as what differs: 2, fc1, 2
    assert b"fc1" in content[:40]
    assert b"weight" not in content
    for ordered in (state, dict(sorted(state.items()))):
        back = through(ordered, tmp_path)
        assert list(back) == list(ordered)
        assert all(torch.equal(back[name], state[name]) for name in state)


def test_costs_sum_to_the_size_of_the_file():
    content, cost = encode_sg(*_parts({"w": sparse(200, 300), "b": torch.randn(200)}))
    assert cost.total == 8 * len(content)
    assert cost.indices == pytest.approx(
        position_entropy(60_000, int((sparse(200, 300) != 0).sum())), rel=0.01
    )


@pytest.mark.parametrize("sparsity", [0.0, 0.02, 0.3, 0.5, 0.62, 0.75, 0.9, 0.99, 0.999])
def test_positions_take_hardly_more_than_the_entropy_bound(sparsity):
    weight = sparse(700, 700, keep=1 - sparsity)
    _, cost = encode_sg(*_parts({"w": weight}))
    assert cost.indices <= 1.05 * position_entropy(weight.numel(), int((weight != 0).sum())) + 1


def test_lossless_floats_take_less_than_their_bits():
    _, cost = encode_sg(*_parts({"w": sparse(300, 300)}))
    assert cost.values < 0.9 * 32 * int((sparse(300, 300) != 0).sum())


def test_a_quantised_network_shares_a_table_of_values():
    model = nn.Sequential(nn.Linear(60, 60), nn.Linear(60, 60))
    lossless = len(encode_sg(*_parts(model.state_dict()))[0])
    quantise_(model, bits=4)
    content, cost = encode_sg(*_parts(model.state_dict()))
    assert cost.values <= 4 * 7_320 + 100
    assert len(content) < lossless / 5


def test_dead_rows_and_flags_that_are_known_cost_nothing():
    first, second = sparse(400, 50), sparse(10, 400)
    dead = torch.arange(400) % 8 != 0
    first[dead], second[:, dead] = 0, 0
    _, both = encode_sg(*_parts({"first": first, "second": second}))
    _, one = encode_sg(*_parts({"first": first}))
    assert both.indices - one.indices < position_entropy(10 * 50, int((second != 0).sum())) * 1.1


@cache
def plain():
    """A small file, made once: examples change a few bytes of it."""
    return encode_sg(
        *_parts({"w": sparse(30, 40), "b": sparse(30, keep=1.0), "q": torch.ones(4, 4)})
    )[0]


@cache
def told_by_order():
    """A file with rows that are told by their order."""
    first, second = sparse(40, 30), sparse(5, 40)
    first = first[torch.tensor(sorted(range(40), key=lambda row: (first[row] != 0).tolist()))]
    return encode_sg(
        *_parts({"first": first.sign(), "second": second.sign(), "bias": torch.ones(40)})
    )[0]


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_an_error_that_names_it(data, scratch):
    path, raw = scratch / "network.sg", bytearray(plain())
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    else:
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"network\.sg"):
        load(path)


@pytest.mark.parametrize("made", [plain, told_by_order])
@settings(max_examples=examples(100), deadline=None)  # make torture tries many more
@given(data=st.data())
def test_a_forged_file_with_a_right_checksum_is_read_or_refused(made, data, scratch):
    path, raw = scratch / "forged.sg", bytearray(made()[:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(3, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw + zlib.crc32(raw).to_bytes(4, "little"))
    with contextlib.suppress(ValueError):
        load(
            path, limit=2**13
        )  # five times what is in it; a forged shape with more would only take time


def test_a_bomb_is_refused_before_it_goes_off(tmp_path):
    head = (
        b"sg\x02" + b"\x01" + b"\x00" + b"\x01" + b"\x01w" + b"\x0b" + b"\x02" + b"\xff\xff\x3f" * 2
    )
    raw = head + b"\x00" + b"\x00\x00" + np.array([2**16], "<u4").tobytes()
    path = tmp_path / "bomb.sg"
    path.write_bytes(raw + zlib.crc32(raw).to_bytes(4, "little"))
    with pytest.raises(ValueError, match="raise limit="):
        load(path)


def forged(path, head, stream=b""):
    raw = head + np.array([2**16], "<u4").tobytes() + stream
    path.write_bytes(raw + zlib.crc32(raw).to_bytes(4, "little"))
    return path


def listed(rows, columns, side):
    shape = varint(rows) + varint(columns)
    return (
        b"sg\x02"
        + varint(1)
        + varint(0)
        + varint(1)
        + varint(1)
        + b"w\x0b\x02"
        + shape
        + varint(0)
        + side
    )


@pytest.mark.parametrize("shape", [(0, 2**40, 2**40), (2**47, 0, 2**47), (0,) * 3 + (2**62,)])
def test_an_empty_tensor_of_odd_shape_is_refused(shape, tmp_path):
    sizes = b"".join(map(varint, shape))
    head = b"sg\x02" + varint(1) + varint(0) + varint(1) + varint(1) + b"w\x0b"
    head += varint(len(shape)) + sizes + varint(0) + varint(0)
    with pytest.raises(ValueError, match=r"odd\.sg: "):
        load(forged(tmp_path / "odd.sg", head))


def test_a_file_that_would_keep_one_lane_busy_for_hours_is_refused(tmp_path):
    kept = 2**14 * 2**14 - 1  # every bit is nearly certain, so that a few bytes would do
    head = listed(2**14, 2**14, varint(2) + varint(0) + varint(0) + varint(2 * kept))
    with pytest.raises(ValueError, match="lanes are too few"):
        load(forged(tmp_path / "busy.sg", head), limit=2**31)


@pytest.mark.parametrize(
    ("side", "match"),
    [
        (varint(2) + varint(0) + varint(0) + varint(1), "keeps nothing"),
        (varint(2) + varint(1) + varint(0), "no row or column"),
        (varint(2) + varint(3), "more than"),  # flags that are not there
        (varint(2) + varint(2) + varint(3) + varint(3) + varint(2), "does not fit"),
        (varint(2) + varint(0) + varint(0) + varint(2 * 600 * 7 + 3), "more than"),
        (varint(2) + varint(0) + varint(0) + varint(5), "by order"),
        (varint(1) + varint(1), "tied to tensor 1"),
        (varint(4), "more than"),  # a table that is not there
    ],
)
def test_impossible_side_information_is_refused(side, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        load(forged(tmp_path / "odd.sg", listed(600, 7, side)))


def test_a_tensor_with_few_kept_elements_among_many_has_lanes_enough(tmp_path):
    weight = torch.zeros(1024, 2048)
    weight[::100, ::300] = 1.5
    assert_same_bits(weight, through({"w": weight}, tmp_path)["w"])


def test_flags_of_channels_tell_the_columns_behind_them(tmp_path):
    first, second = torch.zeros(8, 30), torch.zeros(20, 8 * 16)
    first[2::3] = sparse(2, 30, keep=0.5)
    second[:, (torch.arange(8) % 3 == 2).repeat_interleave(16)] = sparse(20, 32, keep=0.5)
    state = {"first": first, "second": second}
    back = through(state, tmp_path)
    assert all(torch.equal(back[name], state[name]) for name in state)
    _, cost = encode_sg(*_parts(state))
    assert (
        cost.indices < 5 + 60 + 640 + 10
    )  # two of eight channels once, then a bit for every live element
