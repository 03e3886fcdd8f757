"""Names, types and shapes of tensors come back, and take few bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_runtime.files import TYPES
from sparsegate_runtime.files.sg.bytestream import ByteReader, varint
from sparsegate_runtime.files.sg.shapes import MAX_NAME, encode_shapes, read_shapes

LENET5 = {
    "conv1.weight": ("F32", (20, 1, 5, 5)),
    "conv1.bias": ("F32", (20,)),
    "conv2.weight": ("F32", (50, 20, 5, 5)),
    "conv2.bias": ("F32", (50,)),
    "fc1.weight": ("F32", (500, 800)),
    "fc1.bias": ("F32", (500,)),
    "fc2.weight": ("F32", (10, 500)),
    "fc2.bias": ("F32", (10,)),
}
NORM = {
    "norm.weight": ("F32", (64,)),
    "norm.bias": ("F32", (64,)),
    "norm.running_mean": ("F32", (64,)),
    "norm.running_var": ("F32", (64,)),
    "norm.num_batches_tracked": ("I64", ()),
}
names = st.one_of(
    st.builds(
        "{}.{}".format,
        st.sampled_from(["a", "ab", "layers.10.attention", "layers.11.attention", "", "ü", "û"]),
        st.sampled_from([key.rpartition(".")[2] for key in NORM]),
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
)
shapes = st.one_of(
    st.sampled_from([(), (5,), (5, 5), (10, 5), (0, 5), (5, 0), (5, 4, 3, 3), (10, 5, 3, 3)]),
    st.lists(st.integers(0, 300), max_size=6).map(tuple),
    st.lists(st.just(1), min_size=6, max_size=64).map(tuple),
)


def read(raw):
    reader = ByteReader(raw)
    found = read_shapes(reader)
    assert reader.position == len(raw)
    return found


def test_lenet5_takes_thirty_bytes():
    assert len(encode_shapes(LENET5)) == 30
    assert read(encode_shapes(LENET5)) == LENET5


def test_a_batch_norm_is_one_group():
    assert encode_shapes(NORM) == b"\x01" + bytes([1 + 8 * 5, 16 * 4]) + b"norm" + varint(64)
    assert read(encode_shapes(NORM)) == NORM


@given(st.dictionaries(names, st.tuples(st.sampled_from([*TYPES]), shapes), max_size=12))
def test_all_tensors_come_back_in_order(tensors):
    assert list(read(encode_shapes(tensors)).items()) == list(tensors.items())


@given(
    st.lists(names, max_size=4, unique=True),
    st.lists(st.sampled_from(list(NORM)), unique=True),
    st.booleans(),
)
def test_layers_come_back_whatever_the_order_of_their_tensors(layers, order, alike):
    tensors = {
        layer + key.removeprefix("norm"): NORM[key] if alike else ("F32", (64, 3))
        for layer in layers
        for key in order
    }
    assert list(read(encode_shapes(tensors)).items()) == list(tensors.items())


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw):
    try:
        found = read_shapes(ByteReader(raw))
    except ValueError as error:
        assert str(error)  # noqa: PT017
    else:
        assert read(encode_shapes(found)) == found


def test_a_name_over_the_limit_is_refused_by_writer_and_reader():
    with pytest.raises(ValueError, match="at most 4096 bytes"):
        encode_shapes({"n" * (MAX_NAME + 1): ("F32", ())})
    assert read(encode_shapes({"n" * MAX_NAME: ("F32", ())})) == {"n" * MAX_NAME: ("F32", ())}


def group(first, *numbers, name=b"w"):
    return bytes([first]) + varint(16 * len(name)) + name + b"".join(map(varint, numbers))


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        ([group(1, 5), bytes([1, 0, 5])], "twice"),
        ([group(7 * 8 + 1, 5)], "impossible names"),
        ([group(3 * 8)], "impossible names"),  # weight and bias of a shape without sizes
        ([bytes([1, 1])], "name before byte"),  # cuts a letter from nothing
        ([group(1, 5, name=b"\xff")], "not UTF-8"),
        ([bytes([64, 16, 119, 16])], "type 16"),
        ([group(128 + 4, 5, 4)], "4 dimensions"),  # sizes of a tensor that is not there
        ([group(2, 2**40, 2 * 2**40)], "at most"),
        ([group(3, 0, 1, 2**47), group(1, 2**48 + 1)], "more than"),
        ([group(3, 0, 2**40 * 2 + 1, 2**40)], "at most"),  # empty, but torch cannot make it
    ],
)
def test_impossible_tensors_are_refused(groups, match):
    with pytest.raises(ValueError, match=match):
        read(varint(len(groups)) + b"".join(groups))


def test_names_cannot_fill_the_memory():
    first = group(0, name=b"n" * 4000 + b"00000")
    others = [bytes([0]) + varint(16 * 5 + 5) + b"%05x" % number for number in range(1, 20_000)]
    with pytest.raises(ValueError, match="names of its tensors"):
        read(varint(20_000) + b"".join([first, *others]))
