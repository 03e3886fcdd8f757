"""Pickles of CIFAR are read without unpickling: hostile and damaged ones raise ValueError at most."""

import io
import pickle
import random
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sparsegate_lab.data.cifar import find_cifar
from sparsegate_lab.data.cifar_pickle import as_array, read_pickle

COUNT = 3  # images of a batch
PIXELS = np.arange(COUNT * 3072, dtype=np.uint16).astype(np.uint8).reshape(COUNT, 3072)
LABELS = [0, 3, 9]


def batch(labels=LABELS, data=PIXELS):
    return {b"data": data, b"labels": labels, b"filenames": [b"a.png", b"b.png"]}


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("labels", [LABELS, np.array(LABELS)], ids=["list", "array"])
def test_a_batch_is_what_python_reads(protocol, labels):
    raw = pickle.dumps(batch(labels), protocol)
    read, wanted = read_pickle(raw), pickle.loads(raw)
    assert list(read) == list(wanted)
    assert np.array_equal(as_array(read[b"data"]), wanted[b"data"])
    assert read[b"filenames"] == wanted[b"filenames"]
    found = read[b"labels"]
    assert (found if isinstance(labels, list) else as_array(found).tolist()) == LABELS


@given(
    arrays.arrays(
        st.sampled_from([np.uint8, np.int64]), arrays.array_shapes(max_dims=2, min_side=1)
    ),
    st.booleans(),
    st.integers(0, 4),
)
def test_any_array_of_pixels_or_labels_comes_back(values, is_fortran, protocol):
    values = np.asfortranarray(values) if is_fortran else values
    found = as_array(read_pickle(pickle.dumps(values, protocol)))
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


def test_strings_of_python_2_are_bytes():
    assert read_pickle(b"\x80\x02}q\x00U\x04dataq\x01T\x03\x00\x00\x00\xff\x00as.") == {
        b"data": b"\xff\x00a"
    }


@pytest.mark.parametrize(
    "value",
    [np.zeros(2, np.float32), np.zeros((1, 1, 1), np.uint8), np.array([None]), np.zeros(2, "u2")],
    ids=["float", "three dimensions", "objects", "two bytes"],
)
def test_an_array_of_another_kind_is_refused(value):
    with pytest.raises(ValueError, match=r"expected an? "):
        as_array(read_pickle(pickle.dumps(value, 2)))


class Hostile(pickle._Pickler):
    """Writes an array whose element type is what numpy itself would believe: bytes seen as objects."""

    def __init__(self, file, dtype_state, content):
        super().__init__(file, 2)
        self.dtype_state, self.content = dtype_state, content

    def reducer_override(self, value):
        if isinstance(value, np.dtype):
            return np.dtype, ("V8", False, True), self.dtype_state
        if isinstance(value, np.ndarray):
            rebuild, arguments, _ = value.__reduce__()
            return rebuild, arguments, (1, (1,), value.dtype, False, self.content)
        return NotImplemented


def test_bytes_that_a_file_declares_to_be_objects_are_refused():
    fields = (("x",), {"x": (np.dtype("u1"), 0)})
    raw = io.BytesIO()
    Hostile(raw, (3, "|", None, *fields, 8, 1, 0), b"ABCDEFGH").dump(np.zeros(1, np.uint8))
    with pytest.raises(ValueError, match="element type u1 or i8"):
        as_array(read_pickle(raw.getvalue()))


HUGE = [
    b"\x80\x02}r\xff\xff\xff\x7f.",  # memo index
    b"\x80\x02}p999999999999\n.",
    b"\x80\x02T\xff\xff\xff\x7fab.",  # lengths
    b"\x80\x02X\xff\xff\xff\x7fab.",
    b"\x80\x04B\xff\xff\xff\xffab.",
    b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"ab.",
    b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"ab.",
    b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"}.",  # of a frame
    b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
    b"I" + b"9" * 5000 + b"\n.",
    b"\x80\x02(" + b"(" * 2_000 + b".",
    b"\x80\x02)" + b"\x85" * 2_000 + b"0.",  # a deep tuple
    b"\x80\x02c_codecs\nencode\nq\x00X\x00\x10\x00\x00"
    + b"a" * 4096
    + b"q\x01X\x06\x00\x00\x00latin1"
    b"\x86q\x02R" + b"h\x00h\x02R" * 10_000 + b".",  # one text encoded again and again
]


@pytest.mark.parametrize("raw", HUGE, ids=range(len(HUGE)))
def test_memory_is_bounded_by_the_size_of_the_file_whatever_it_claims(raw):
    tracemalloc.start()
    try:
        read_pickle(raw)
    except ValueError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1_000_000 + 200 * len(raw)


@pytest.mark.parametrize("raw", [b"\x80\x02})\x85Ns.", b"\x80\x02}(K\x01Nu.", b"\x80\x02}(NNu."])
def test_a_key_that_is_not_a_string_is_refused(raw):
    with pytest.raises(ValueError, match="a key of a dict is not a string"):
        read_pickle(raw)


def test_a_file_of_endless_opcodes_is_refused(monkeypatch):
    monkeypatch.setattr("sparsegate_lab.data.cifar_pickle.MAX_OPCODES", 1000)
    with pytest.raises(ValueError, match="more than 1,000 opcodes"):
        read_pickle(b"\x80\x02" + b"N" * 1000 + b".")


@pytest.fixture
def folder(tmp_path):
    """Pickled CIFAR-100."""
    for name in ("train", "test"):
        content = {b"data": PIXELS, b"fine_labels": LABELS}
        (tmp_path / name).write_bytes(pickle.dumps(content, 2))
    return tmp_path


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ([[0], [3], [9]], "a label is not an integer"),
        ([0, 3, 2**70], "damaged"),
        ([0, 3], r"expected uint8 of shape \(2, 3072\)"),
        (b"abc", "expected a numpy array"),
        ([0.0, 3.0, 9.0], "has the opcode BINFLOAT"),
        ([0, 3, -1], "expected labels from 0 to 99, got -1"),
        ([0, 3, True], "a label is not an integer"),
    ],
)
def test_labels_that_are_not_one_integer_an_image_are_refused(folder, labels, wanted):
    content = {b"data": PIXELS, b"fine_labels": labels}
    (folder / "train").write_bytes(pickle.dumps(content, 2))
    with pytest.raises(ValueError, match=wanted):
        find_cifar(folder)()


INTERESTING = (
    b"\x00\x01\x02\x7f\x80\x81\x85\x86\x87\x88\x89\x8c\x93\x94\xff()}]NbRcqhrj0123etuls.TUXBCV"
)


def flip(made, where, source):
    made[where] ^= 1 << source.randrange(8)


def replace(made, where, source):
    made[where] = source.choice(INTERESTING)


def remove(made, where, source):
    del made[where : where + source.randrange(1, 9)]


def insert(made, where, source):
    made[where:where] = bytes(source.choices(INTERESTING, k=source.randrange(1, 9)))


def enlarge(made, where, source):
    made[where : where + 4] = struct.pack("<I", source.choice((0, 2**31 - 1, 2**32 - 1)))


def repeat(made, where, source):
    begin = source.randrange(len(made))
    made[where:where] = made[begin : begin + source.randrange(1, 40)]


def mutated(raw, source):
    """The bytes with some opcodes or numbers changed, removed, inserted or repeated."""
    made = bytearray(raw)
    for _ in range(source.choice((1, 1, 2, 4, 16))):
        change = source.choice((flip, replace, remove, insert, enlarge, repeat))
        change(made, source.randrange(len(made)), source)
    return bytes(made)


def count_read(raws, rounds, seed):
    """Reads mutations; returns how many were still a batch. The others must raise ValueError."""
    source, num_read = random.Random(seed), 0
    for _ in range(rounds):
        raw = mutated(source.choice(raws), source)
        try:
            value = read_pickle(raw)
            if isinstance(value, dict):
                for found in value.values():
                    if not isinstance(found, list):
                        as_array(found)
                num_read += 1
        except ValueError:
            continue
    return num_read


def seeds():
    small = batch(data=PIXELS[:, :40]), batch(np.array(LABELS), PIXELS[:, :40])
    return [pickle.dumps(value, protocol) for value in small for protocol in (0, 2, 3, 4)]


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_a_mutated_pickle_is_read_or_refused():
    assert 0 < count_read(seeds(), 500, seed=1) < 500


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_many_mutated_pickles_are_read_or_refused():
    assert 0 < count_read(seeds(), 100_000, seed=2) < 100_000
