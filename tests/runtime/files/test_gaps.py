"""The format gaps, bit by bit as docs/formats/gaps.md says, and close to the entropy bound."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparsegate_runtime import threads
from sparsegate_runtime.files import FORMATS, Cost, Entry, position_entropy
from sparsegate_runtime.files.format import Description, Elements
from sparsegate_runtime.files.gaps import _write_by_kernel_, _write_by_numpy_
from sparsegate_runtime.kernels import KERNELS

GAPS = FORMATS["gaps"]
SPARSITIES = (0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99, 0.999)

# Kept are 7, 20 and 45 of 64; the gaps 7, 12 and 24 with rice 3 are the quotients 0, 1, 3 and the
# remainders 7, 4, 0.
PLAN = Description((64,), 3, {"of": "kept", "rice": 3})
PARTS = {
    "values": np.array([1, 2, 3], np.int32),
    "quotients": np.array([0b1000101], np.uint8),  # 1, 01, 0001
    "remainders": np.array(
        [0b001, 0b001, 0b011], np.uint8
    ),  # the lowest bits of 7, 4, 0, then the next
}


def decoded(plan=PLAN, **changes):
    out = np.zeros(plan.total, np.int32)
    GAPS.decode(plan, PARTS | changes, out)
    return out


def with_settings(**settings):
    return Description(PLAN.shape, PLAN.kept, PLAN.settings | settings)


def test_gaps_are_quotients_in_unary_and_remainders_in_bit_planes():
    out = decoded()
    assert np.flatnonzero(out).tolist() == [7, 20, 45]
    assert out[[7, 20, 45]].tolist() == [1, 2, 3]


def test_without_remainders_the_quotients_are_the_mask_up_to_its_last_one():
    bits = np.zeros(10, np.int32)
    bits[[1, 4, 9]] = 1  # gaps 1, 2, 4: two bytes with rice 0 as with rice 1
    encoded = GAPS.encode(Elements(bits, (10,)))
    assert encoded.settings == {"of": "kept", "rice": 0}
    assert encoded.parts["quotients"].tolist() == [0b00010010, 0b10]
    assert encoded.parts["remainders"].tolist() == []
    assert GAPS.cost(Elements(bits, (10,))) == Cost(values=3 * 32, indices=2 * 8)


def test_where_most_are_kept_the_removed_ones_are_marked():
    bits = np.ones(100, np.int8)
    bits[[3, 50]] = 0
    encoded = GAPS.encode(Elements(bits, (100,)))
    assert encoded.settings["of"] == "removed"
    out = np.zeros(100, np.int8)
    GAPS.decode(Description((100,), 98, encoded.settings), encoded.parts, out)
    assert np.flatnonzero(out == 0).tolist() == [3, 50]


@given(st.lists(st.integers(0, 5000), unique=True, max_size=60), st.booleans())
def test_the_parameter_is_the_best_of_all(positions, removed):
    bits = np.full(5001, int(removed), np.int8)
    bits[positions] = 1 - int(removed)
    gap = np.diff(np.sort(positions), prepend=-1).astype(np.int64) - 1
    sizes = [
        -(-int((gap >> rice).sum() + len(gap)) // 8) + rice * -(-len(gap) // 8)
        for rice in range(32)
    ]
    chosen = GAPS.cost(Elements(bits, (5001,))).indices // 8
    assert (
        chosen <= 1.05 * min(sizes) + 8
    )  # only a few are tried: those near the logarithm of the mean


@pytest.mark.parametrize("sparsity", SPARSITIES)
def test_positions_of_a_random_mask_are_within_a_fifth_of_the_bound(sparsity):
    mask = np.random.default_rng(0).random((512, 512)) >= sparsity
    weight = (np.abs(np.random.default_rng(1).standard_normal((512, 512))) + 1) * mask
    bits = weight.astype(np.float32).reshape(-1).view(np.int32)
    entry = Entry.cheapest(Elements(bits, (512, 512)), "F32")
    bound = position_entropy(512 * 512, int(mask.sum()))
    # No slack is needed at 262 kept of 262,144 either: eleven parts that end in a broken byte are
    # 77 of 3,000 bits.
    assert entry.cost.indices <= 1.2 * bound
    assert entry.cost.total <= 1.001 * 32 * 512 * 512


@pytest.mark.parametrize("sparsity", SPARSITIES)
def test_the_best_parameter_is_within_what_the_specification_promises(sparsity):
    bits = (np.random.default_rng(1).random(2**20) >= sparsity).astype(np.int8)
    indices = GAPS.cost(Elements(bits, (2**20,))).indices
    bound = position_entropy(2**20, int(bits.sum()))
    # 4.3 % for the distribution itself; 1 % for this draw of it and the bits at the ends of parts
    assert indices <= 1.053 * bound


@pytest.mark.parametrize("rice", [-1, 32, 64, 2**70, 1.0, "3", None, [3], float("nan")])
def test_a_parameter_out_of_range_is_refused(rice):
    with pytest.raises(ValueError, match="rice"):
        decoded(with_settings(rice=rice))


@pytest.mark.parametrize("of", ["", "all", None, 1, ["kept"]])
def test_something_else_than_kept_or_removed_is_refused(of):
    with pytest.raises(ValueError, match="of must be 'kept' or 'removed'"):
        decoded(with_settings(of=of))


def test_settings_that_are_missing_are_refused():
    with pytest.raises(ValueError, match="rice"):
        decoded(Description(PLAN.shape, PLAN.kept))


@pytest.mark.parametrize(
    "quotients", [[], [0b101], [0b1000101, 0], [0, 0b1000101], [0b11000101], [0] * 100]
)
def test_quotients_with_another_number_of_ones_or_a_longer_end_are_refused(quotients):
    with pytest.raises(ValueError, match=r"quotients|below element"):
        decoded(quotients=np.array(quotients, np.uint8))


def test_a_bomb_of_quotients_is_refused():
    with pytest.raises(ValueError, match="quotients"):
        decoded(quotients=np.zeros(10**6, np.uint8))


@pytest.mark.parametrize("remainders", [[], [1, 1], [1, 1, 3, 0], [8, 1, 3], [1, 1, 128]])
def test_remainders_of_another_length_or_with_ones_after_their_end_are_refused(remainders):
    with pytest.raises(ValueError, match="remainders"):
        decoded(remainders=np.array(remainders, np.uint8))


def test_gaps_that_lead_outside_are_refused():
    assert np.flatnonzero(decoded(Description((46,), 3, PLAN.settings))).tolist() == [7, 20, 45]
    with pytest.raises(ValueError, match="below element 45, got 45"):
        decoded(Description((45,), 3, PLAN.settings))


def test_the_widest_parameter_cannot_overflow():
    plan = Description((2**16,), 1, {"of": "kept", "rice": 31})
    with pytest.raises(ValueError, match="below element"):
        decoded(
            plan,
            values=np.ones(1, np.int32),
            quotients=np.array([1], np.uint8),
            remainders=np.ones(31, np.uint8),
        )


def some_kept(total, keep, width, seed):
    """A plan with these fractions kept, and its parts."""
    random = np.random.default_rng(seed)
    bits = np.where(random.random(total) < keep, random.integers(1, 100, total), 0).astype(width)
    tensor = Elements(bits, (total,))
    made = GAPS.encode(tensor)
    return Description((total,), tensor.num_kept, made.settings), made.parts


@contextmanager
def num_threads(count):
    before = threads.follow(lambda: count)
    try:
        yield
    finally:
        threads.follow(before)


def assert_kernel_writes_what_numpy_writes(plan, parts, width, *, count, wide, shift=0):
    """Into memory that begins `shift` elements after a line of the cache, and has others around it."""
    by_numpy, room = np.full(plan.total, 85, width), np.full(plan.total + 256, 85, width)
    start = -(room.ctypes.data // room.itemsize) % 64 + shift
    _write_by_numpy_(plan, parts, by_numpy)
    with num_threads(count):
        _write_by_kernel_(KERNELS, plan, parts, room[start : start + plan.total], wide=wide)
    assert np.array_equal(room[start : start + plan.total], by_numpy)
    assert (room[:start] == 85).all()
    assert (room[start + plan.total :] == 85).all()


@pytest.mark.skipif(KERNELS is None, reason="kernels not built")
@given(
    total=st.integers(0, 100_000),
    keep=st.sampled_from([0.0001, 0.003, 0.05, 0.4]),
    width=st.sampled_from(["int8", "int16", "int32", "int64"]),
    count=st.integers(1, 5),
    seed=st.integers(0, 99),
    wide=st.booleans(),
    shift=st.integers(0, 64),
)
def test_the_kernel_writes_what_numpy_writes_with_any_number_of_threads(
    total, keep, width, count, seed, wide, shift
):
    plan, parts = some_kept(total, keep, width, seed)
    assume(plan.settings["of"] == "kept")
    assert_kernel_writes_what_numpy_writes(plan, parts, width, count=count, wide=wide, shift=shift)


@pytest.mark.skipif(KERNELS is None, reason="kernels not built")
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("rice", [0, 1, 4, 5, 6, 10, 15, 31])
def test_the_kernel_writes_what_numpy_writes_with_any_parameter(rice, wide):
    gap = np.random.default_rng(rice).integers(0, 1200, 3001)
    quotients = np.zeros(((gap >> rice) + 1).sum(), bool)
    quotients[np.cumsum((gap >> rice) + 1) - 1] = True
    planes = [np.packbits(gap >> bit & 1, bitorder="little") for bit in range(rice)]
    parts = {
        "values": np.arange(1, 3002, dtype=np.int32),
        "quotients": np.packbits(quotients, bitorder="little"),
        "remainders": np.concatenate([np.zeros(0, np.uint8), *planes]),
    }
    plan = Description((int((gap + 1).sum()) + 5,), 3001, {"of": "kept", "rice": rice})
    GAPS.check(plan, parts, "int32")
    assert_kernel_writes_what_numpy_writes(plan, parts, "int32", count=2, wide=wide)


@pytest.mark.skipif(KERNELS is None, reason="kernels not built")
@pytest.mark.parametrize("wide", [False, True])
@given(
    st.binary(max_size=3000),
    st.binary(min_size=3000, max_size=3000),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_parts_that_change_after_the_check_write_nothing_outside(
    wide, quotients, remainders, rice, count
):
    plan = Description((5000,), 2000, {"of": "kept", "rice": rice})
    parts = {
        "values": np.ones(2000, np.int16),
        "quotients": np.frombuffer(quotients, np.uint8),
        "remainders": np.frombuffer(remainders, np.uint8)[: rice * 250],
    }
    room = np.full(6000, 85, np.int16)
    with num_threads(count):
        _write_by_kernel_(KERNELS, plan, parts, room[500:5500], wide=wide)
    assert (room[:500] == 85).all()
    assert (room[5500:] == 85).all()
