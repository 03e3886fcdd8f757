"""Every registered tensor format keeps the contract: joining the registry enrols it here."""

import contextlib
from math import prod

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from tests.drawn import examples

from sparsegate_runtime.files import FORMATS
from sparsegate_runtime.files.format import Description, Elements

every_format = pytest.mark.parametrize("name", list(FORMATS))
shapes = st.one_of(
    st.just(()),
    array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=9),
    st.tuples(st.integers(0, 5000)),
    st.tuples(st.integers(0, 3), st.integers(200, 300)),  # around the width of a byte
)
HUGE = 2**40


def elements(shape, width, density, seed):
    """Random bits, this fraction of them not zero."""
    random = np.random.default_rng(seed)
    total = prod(shape)
    limits = np.iinfo(width)
    bits = random.integers(limits.min, limits.max, total, dtype=width, endpoint=True)
    bits[bits == 0] = 1
    return Elements(np.where(random.random(total) < density, bits, 0).astype(width), shape)


cases = st.tuples(
    shapes,
    st.sampled_from(["int8", "int16", "int32", "int64"]),
    st.sampled_from([0, 0.003, 0.02, 0.1, 0.3, 0.5, 0.7, 0.95, 1]),
    st.integers(0, 2**32 - 1),
)


def encoded(name, tensor):
    made = FORMATS[name].encode(tensor)
    return Description(tensor.shape, tensor.num_kept, made.settings), made.parts


def decoded(name, plan, parts, width):
    out = np.full(plan.total, 85, width)  # every element is written, whatever was there
    FORMATS[name].decode(plan, parts, out)
    return out


@every_format
@given(case=cases)
@example(case=((), "int32", 0, 0))
@example(case=((), "int32", 1, 0))
@example(case=((0,), "int32", 0.5, 0))
@example(case=((3, 0, 2), "int32", 0.5, 0))
@example(case=((0, 3), "int32", 0.5, 0))
@example(case=((1,), "int32", 1, 0))
@example(case=((1, 1), "int32", 0, 0))
@example(case=((40, 50), "int32", 0, 0))
@example(case=((40, 50), "int32", 1, 0))
@example(case=((70_000,), "int32", 0.0001, 0))
@example(case=((1, 70_000), "int32", 0.0001, 0))
def test_what_is_encoded_comes_back_bit_for_bit(name, case):
    tensor = elements(*case)
    plan, parts = encoded(name, tensor)
    assert np.array_equal(decoded(name, plan, parts, tensor.bits.dtype), tensor.bits)


@every_format
@given(case=cases)
@example(case=((), "int32", 0, 0))
@example(case=((3, 0, 2), "int32", 0.5, 0))
@example(case=((40, 50), "int32", 0, 0))
def test_the_cost_is_that_of_the_parts_to_the_bit(name, case):
    tensor = elements(*case)
    cost = FORMATS[name].cost(tensor)
    _, parts = encoded(name, tensor)
    assert cost.values == 8 * parts["values"].nbytes
    assert cost.indices == 8 * sum(part.nbytes for key, part in parts.items() if key != "values")
    assert cost.other == 0


@every_format
@given(case=cases)
def test_the_parts_are_those_that_it_names_each_one_row(name, case):
    tensor = elements(*case)
    _, parts = encoded(name, tensor)
    assert tuple(parts) == FORMATS[name].parts
    assert {part.ndim for part in parts.values()} == {1}
    assert parts["values"].dtype == tensor.bits.dtype
    assert all(part.dtype in ("u1", "u2", "u4") for key, part in parts.items() if key != "values")


@every_format
def test_its_name_is_that_in_the_registry(name):
    assert FORMATS[name].name == name


@every_format
@given(case=cases)
def test_encoding_changes_nothing_and_twice_gives_the_same(name, case):
    tensor = elements(*case)
    before = tensor.bits.copy()
    (_, first), (_, second) = encoded(name, tensor), encoded(name, tensor)
    assert np.array_equal(tensor.bits, before)
    assert all(np.array_equal(first[key], second[key]) for key in first)


@every_format
@given(case=cases)
def test_parts_without_bytes_can_be_left_out(name, case):
    tensor = elements(*case)
    plan, parts = encoded(name, tensor)
    there = {key: part for key, part in parts.items() if part.size}
    assert np.array_equal(decoded(name, plan, there, tensor.bits.dtype), tensor.bits)


def damaged(draw, name):
    """A tensor's plan and parts, with one of them damaged, and the element type."""
    tensor = elements(*draw(cases))
    plan, parts = encoded(name, tensor)
    part = draw(st.sampled_from(list(parts)))
    array = parts[part]
    how = draw(
        st.sampled_from(["byte", "shorter", "longer", "missing", "type", "folded", "other part"])
    )
    if how == "byte" and array.nbytes:
        raw = array.copy()
        raw.view(np.uint8)[draw(st.integers(0, array.nbytes - 1))] ^= draw(st.integers(1, 255))
        parts[part] = raw
    elif how == "shorter":
        parts[part] = array[: draw(st.integers(0, len(array)))]
    elif how == "longer":
        parts[part] = np.concatenate(
            [array, np.full(draw(st.integers(1, 40)), draw(st.integers(0, 127)), array.dtype)]
        )
    elif how == "missing":
        del parts[part]
    elif how == "type":
        parts[part] = array.astype(
            draw(st.sampled_from(["u1", "u2", "u4", "i1", "i2", "i4", "i8", "f4", "?"]))
        )
    elif how == "folded":
        parts[part] = array.reshape(1, -1)
    else:
        parts[part] = parts[draw(st.sampled_from(list(parts)))]
    return plan, parts, tensor.bits.dtype


def refused_or_whole(name, plan, parts, width):
    """Decoding raises ValueError, or gives as many kept elements as were promised."""
    with contextlib.suppress(ValueError):
        out = decoded(name, plan, parts, width)
        assert out.shape == (plan.total,)
        assert name == "dense" or np.count_nonzero(out) == plan.kept


@every_format
@given(data=st.data())
@settings(max_examples=examples(300), deadline=2000)
def test_damaged_parts_are_refused_or_decode_to_the_promised_number_of_elements(name, data):
    refused_or_whole(name, *damaged(data.draw, name))


@every_format
@given(data=st.data())
@settings(max_examples=examples(300), deadline=2000)
def test_what_is_refused_has_changed_nothing(name, data):
    plan, parts, width = damaged(data.draw, name)
    out = np.full(plan.total, 85, width)
    try:
        FORMATS[name].decode(plan, parts, out)
    except ValueError:
        assert (out == 85).all()


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.floats(),
    st.text(max_size=3),
    st.just(HUGE),
    st.just(2**200),
)


@every_format
@given(
    case=cases,
    kept=st.integers(0, 100),
    shape=shapes,
    settings=st.dictionaries(st.text(), anything),
)
@settings(deadline=2000)
def test_a_plan_of_another_tensor_is_refused_or_gives_the_promised_number(
    name, case, kept, shape, settings
):
    tensor = elements(*case)
    plan, parts = encoded(name, tensor)
    for other in (
        Description(tensor.shape, kept, plan.settings),
        Description(shape, tensor.num_kept, plan.settings),
        Description(tensor.shape, tensor.num_kept, settings),
    ):
        refused_or_whole(name, other, parts, tensor.bits.dtype)


@every_format
@given(case=cases, change=st.data())
@settings(deadline=2000)
def test_changed_settings_are_refused_or_give_the_promised_number(name, case, change):
    tensor = elements(*case)
    plan, parts = encoded(name, tensor)
    for key in plan.settings:
        changed = Description(
            plan.shape, plan.kept, plan.settings | {key: change.draw(anything, label=key)}
        )
        refused_or_whole(name, changed, parts, tensor.bits.dtype)
