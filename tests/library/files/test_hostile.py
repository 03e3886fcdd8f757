"""Damaged and malicious files are refused with an error that says where, at no cost beyond their size."""

import contextlib
import json
import re
import time
import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from torch import nn

from sparsegate.files import compress, load
from sparsegate_runtime.files import encode_sg, varint

ZEROS = {"format": "gaps", "dtype": "F32", "shape": [8], "kept": 0, "of": "kept", "rice": 0}
KEPT = ZEROS | {"kept": 2}
ARRAYS = {
    "w:values": ("F32", [2], b"\0\0\x80\x3f" * 2),
    "w:quotients": ("U8", [1], b"\x03"),
}  # 1.0 twice, in front
ENDING = ".sparse.safetensors"
TINY_BOMB = """
import resource, sys, time
from pathlib import Path
import torch
from torch import nn
from sparsegate.files import load

path = Path(sys.argv[1])
model = nn.Linear(3, 2)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)  # 256 MiB more than Python and torch
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.process_time()
packed = load(path)
for attempt in (packed.state_dict, lambda: packed.into(model)):
    try:
        attempt()
    except ValueError as error:
        print(error)
print(time.process_time() - began)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def raw_file(header, data=b""):
    """A safetensors file of a header, text or object, and the bytes after it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def sparse_file(tensors, arrays=None, **about):
    """A file of ours with any description of tensors, text or object, and any arrays."""
    text = tensors if isinstance(tensors, str) else json.dumps(tensors)
    header = {"__metadata__": {"format": "sparsegate", "version": "1", "tensors": text, **about}}
    data = b""
    for name, (kind, shape, content) in (arrays or {}).items():
        header[name] = {
            "dtype": kind,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    return raw_file(header, data)


@pytest.fixture(scope="session")
def opened(scratch):
    """All tensors of a file with this content, of which none is large."""

    def attempt(content):
        path = scratch / f"hostile{ENDING}"
        path.write_bytes(content)
        return load(path).state_dict(limit=2**20)

    return attempt


@pytest.fixture(scope="session")
def refused(opened):
    """Checks that a file with this content is refused, says where, and returns the message."""

    def check(content, where="hostile"):
        with pytest.raises(ValueError, match=re.escape(where)) as caught:
            opened(content)
        return str(caught.value)

    return check


@pytest.fixture(scope="session")
def valid(scratch):
    """A file with a tensor in every format and a tied one."""
    torch.manual_seed(0)
    few = torch.zeros(1, 60_000)
    few[0, 30_000] = 1
    half, sparse = torch.randn(40, 60), torch.randn(50, 60)
    half[half < 0] = 0
    sparse[sparse.abs() < 2] = 0
    path = scratch / f"valid{ENDING}"
    state = {
        "half": half,
        "few": few,
        "sparse": sparse,
        "dense": torch.randn(20),
        "step": torch.tensor(3),
    }
    compress(state | {"tied": sparse}).save(path)
    return path.read_bytes()


def header_end(content):
    return 8 + int.from_bytes(content[:8], "little")


def test_the_files_that_the_tests_damage_are_whole(opened, valid):
    assert opened(sparse_file({"w": ZEROS}))["w"].tolist() == [0] * 8
    assert opened(sparse_file({"w": KEPT}, ARRAYS))["w"].tolist() == [1, 1, *[0] * 6]
    assert (
        opened(raw_file(valid[8 : header_end(valid)], valid[header_end(valid) :])).keys()
        == opened(valid).keys()
    )


# what is not a file of ours at all


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"\0" * 8, b"\0" * 100, b"PK\x03\x04" * 9, b"{}", b"\x80\x02}q\0."]
)
def test_something_else_is_refused(content, refused):
    refused(content)


def test_a_file_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        load(tmp_path / f"none{ENDING}")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises((IsADirectoryError, ValueError), match=tmp_path.name):
        load(tmp_path)


def test_a_file_that_may_not_be_read_says_so(tmp_path):
    path = tmp_path / f"locked{ENDING}"
    path.write_bytes(sparse_file({}))
    path.chmod(0)
    try:
        path.read_bytes()
    except PermissionError:
        with pytest.raises(PermissionError):
            load(path)
    else:
        assert load(path).state_dict() == {}  # the superuser may


def test_an_ordinary_safetensors_file_is_refused_with_what_is_missing(refused):
    header = {"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    assert "its format is None" in refused(raw_file(header, b"\0" * 4))


@pytest.mark.parametrize(
    "about", [{"format": "other"}, {"format": ""}, {"version": "2"}, {"version": ""}]
)
def test_another_format_or_version_is_refused(about, refused):
    assert next(iter(about)) in refused(sparse_file({}, **about))


# the header


@pytest.mark.parametrize("length", [0, 1, 7, 2**31, 2**32, 2**62, 2**63, 2**64 - 1])
def test_a_header_of_absurd_length_is_refused(length, refused, valid):
    refused(length.to_bytes(8, "little") + valid[8:])


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"a":}',
        b"\xff\xfe\xfd",
        b'{"__metadata__":[]}',
        b'{"__metadata__":{"format":1}}',
    ],
)
def test_a_header_that_is_no_table_is_refused(header, refused):
    refused(raw_file(header))


def test_nesting_without_end_is_refused(refused):
    refused(raw_file(b'{"a":' * 100_000))
    refused(raw_file(b"[" * 100_000))
    refused(sparse_file("[" * 100_000))
    refused(sparse_file('{"w":' * 100_000 + "1" + "}" * 100_000))
    refused(
        sparse_file({"w": ZEROS | {"shape": "x"}}).replace(b'\\"x\\"', b"[" * 5000 + b"]" * 5000)
    )


@pytest.mark.parametrize(
    "offsets",
    [
        [0, 5],
        [1, 4],
        [4, 0],
        [0, 2**63],
        [2**64 - 4, 2**64],
        [-4, 0],
        [0],
        [0, 4, 8],
        "04",
        [0.0, 4.0],
    ],
)
def test_data_outside_the_file_is_refused(offsets, refused):
    header = json.loads(sparse_file({})[8:]) | {
        "w": {"dtype": "F32", "shape": [1], "data_offsets": offsets}
    }
    refused(raw_file(header, b"\0" * 4))


def test_two_tensors_in_the_same_place_are_refused(refused):
    place = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    refused(raw_file(json.loads(sparse_file({})[8:]) | {"a": place, "b": place}, b"\0" * 4))


@pytest.mark.parametrize(
    "shape",
    [
        [0, 2**62, 2**62],
        [2**62, 0, 2**62],
        [0, 2**63],
        [0, 2**64 - 1],
        [0, 2**64],
        [2**40],
        [2**63, 2],
        [-1],
        [0.0],
        [1] * 65,
        [0] * 65,
        [1] * 5000,
    ],
    ids=lambda shape: str(shape)[:30],
)
def test_a_plain_tensor_of_absurd_shape_is_refused(shape, refused):
    for data in (b"", b"\0" * 4):
        refused(sparse_file({}, {"w": ("F32", shape, data)}))


@pytest.mark.parametrize(
    "kind", ["F8_E8M0", "F4", "F6_E2M3", "F6_E3M2", "F8_E4M3FNUZ", "F128", "", "f32", 7]
)
def test_a_plain_tensor_of_unknown_type_is_refused(kind, refused):
    refused(sparse_file({}, {"w": (kind, [8], b"\0" * 8)}))


# the description of the tensors


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "7", '"w"', "{", '{"w":7}', '{"w":[]}', "{}{}", "NaN", "\0"]
)
def test_a_description_that_is_no_table_is_refused(text, refused):
    refused(sparse_file(text))


@pytest.mark.parametrize(
    "text", ['{"w":%s,"w":%s}' % ((json.dumps(ZEROS),) * 2), '{"w":{"format":"a","format":"b"}}']
)
def test_a_name_that_stands_twice_is_refused(text, refused):
    assert "twice" in refused(sparse_file(text))


def test_a_name_that_is_both_dense_and_described_is_refused(refused):
    assert "w is there twice" in refused(sparse_file({"w": ZEROS}, {"w": ("F32", [1], b"\0" * 4)}))
    assert "w is there twice" in refused(
        sparse_file({"w": {"same": "w"}}, {"w": ("F32", [1], b"\0" * 4)})
    )


def test_a_name_that_stands_twice_in_the_header_is_refused_or_one(opened):
    place = b'"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
    text = json.dumps(json.loads(sparse_file({})[8:])).encode()
    try:
        assert opened(raw_file(b"{" + place * 2 + text[1:], b"\0\0\x80\x3f"))["w"].tolist() == [1]
    except ValueError as error:
        assert "hostile" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "same",
    [
        {"w": {"same": "v"}},
        {"w": {"same": "w"}},
        {"a": {"same": "b"}, "b": {"same": "a"}},
        {"w": {"same": []}},
    ],
)
def test_a_tie_to_nothing_to_itself_or_in_a_circle_is_refused(same, refused):
    assert "tied" in refused(sparse_file(same))


@pytest.mark.parametrize(
    "change",
    [
        {"format": "dense"},
        {"format": "zip"},
        {"format": None},
        {"format": []},
        {"dtype": "F7"},
        {"dtype": None},
        {"dtype": {}},
        {"shape": None},
        {"shape": 8},
        {"shape": "8"},
        {"shape": [-8]},
        {"shape": [8.0]},
        {"shape": [True]},
        {"shape": ["8"]},
        {"shape": [[8]]},
        {"shape": [2**63]},
        {"shape": [2**24, 2**25]},
        {"shape": [2**64] * 64},
        {"shape": [0, 2**63]},
        {"shape": [0, 2**64]},
        {"shape": [0, 2**62, 2**62]},
        {"shape": [10**4000, 0]},
        {"shape": [1] * 65},
        {"kept": 9},
        {"kept": -1},
        {"kept": 0.0},
        {"kept": None},
        {"kept": False},
        {"kept": 2**64},
        {"of": "all"},
        {"of": None},
        {"rice": -1},
        {"rice": 32},
        {"rice": 2**64},
        {"rice": True},
        {"rice": 0.0},
        {"rice": None},
        {"rice": float("nan")},
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_description_with_one_thing_wrong_is_refused_with_the_tensors_name(change, refused):
    refused(sparse_file({"w": ZEROS | change}), where="w")


@pytest.mark.parametrize("missing", ZEROS)
def test_a_description_with_one_thing_missing_is_refused_with_the_tensors_name(missing, refused):
    refused(
        sparse_file({"w": {key: value for key, value in ZEROS.items() if key != missing}}),
        where="w",
    )


def test_a_number_with_too_many_digits_is_refused(refused):
    refused(sparse_file(json.dumps({"w": ZEROS}).replace("[8]", f"[{'9' * 100_000}]")))


# the parts


@pytest.mark.parametrize("missing", ARRAYS)
def test_a_missing_part_is_refused(missing, refused):
    refused(
        sparse_file({"w": KEPT}, {key: each for key, each in ARRAYS.items() if key != missing}),
        where="w",
    )


@pytest.mark.parametrize(
    ("part", "array"),
    [
        ("values", ("F32", [1], b"\0\0\x80\x3f")),
        ("values", ("F32", [3], b"\0\0\x80\x3f" * 3)),
        ("values", ("F32", [2], b"\0\0\x80\x3f" + b"\0" * 4)),
        ("values", ("I32", [2], b"\0\0\x80\x3f" * 2)),
        ("values", ("U8", [8], b"\0\0\x80\x3f" * 2)),
        ("values", ("F32", [2, 1], b"\0\0\x80\x3f" * 2)),
        ("quotients", ("U8", [1], b"\x07")),
        ("quotients", ("U8", [1], b"\x01")),
        ("quotients", ("U8", [2], b"\x03\0")),
        ("quotients", ("U8", [100_000], b"\0" * 100_000)),
        ("quotients", ("I8", [1], b"\x03")),
        ("quotients", ("U16", [1], b"\x03\0")),
        ("quotients", ("U8", [1, 1], b"\x03")),
        ("quotients", ("U8", [], b"\x03")),
        ("remainders", ("U8", [1], b"\0")),
        ("mask", ("U8", [1], b"\x03")),
    ],
    ids=str,
)
def test_a_part_of_a_wrong_type_shape_or_content_or_one_too_many_is_refused(part, array, refused):
    refused(sparse_file({"w": KEPT}, ARRAYS | {f"w:{part}": array}), where="w")


# damage of any kind


def test_a_plain_tensor_whose_name_only_looks_like_a_part_is_not_refused(opened):
    assert opened(sparse_file({"w": KEPT}, ARRAYS | {"w:other": ("U8", [1], b"\x03")}))[
        "w:other"
    ].tolist() == [3]


def test_a_file_cut_anywhere_is_refused(valid, refused):
    end = header_end(valid)
    places = {0, 1, 7, 8, 9, end - 1, end, end + 1, len(valid) - 1, *range(0, len(valid), 97)}
    for place in sorted(places):
        refused(valid[:place])


def test_a_file_with_something_after_its_end_is_refused(valid, refused):
    refused(valid + b"\0")
    refused(valid + valid)


def decodes_or_is_refused(opened, content):
    """Opens what may be damaged; what is accepted has the shapes that its own header describes."""
    began = time.process_time()
    with contextlib.suppress(ValueError):
        found = opened(content)
        assert sum(each.nbytes for each in found.values()) <= 2 * 2**20  # the limit, and tied ones
    assert time.process_time() - began < 2


@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), min_size=1, max_size=5
    ),
    st.booleans(),
)
@settings(max_examples=examples(300), deadline=None)
def test_flipped_bits_are_refused_or_change_values_only(opened, valid, flips, in_header):
    content = bytearray(valid)
    length = header_end(valid) if in_header else len(valid)
    for place, bit in flips:
        content[int(place * length)] ^= 1 << bit
    decodes_or_is_refused(opened, bytes(content))


@given(st.floats(0, 1), st.floats(0, 1), st.binary(max_size=30))
@settings(deadline=None)
def test_spliced_files_are_refused_or_decode(opened, valid, begin, end, middle):
    decodes_or_is_refused(
        opened, valid[: int(begin * len(valid))] + middle + valid[int(end * len(valid)) :]
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    key=st.sampled_from([*ZEROS, "same", "more"]),
    value=json_values | st.integers(0, 2**70) | st.lists(st.integers(0)),
)
@settings(max_examples=examples(300), deadline=None)
def test_any_value_in_a_description_is_refused_or_decodes(opened, key, value):
    decodes_or_is_refused(opened, sparse_file({"w": KEPT | {key: value}}, ARRAYS))


@given(st.text() | json_values.map(json.dumps))
@settings(deadline=None)
def test_any_text_as_description_is_refused_or_decodes(opened, text):
    decodes_or_is_refused(opened, sparse_file(text, ARRAYS))


# bombs


@pytest.mark.parametrize("shape", [[2**40], [2**20, 2**20], [3, 2**46], [2**48]], ids=str)
def test_a_tiny_file_of_a_huge_tensor_costs_neither_time_nor_memory(shape, python, tmp_path):
    path = tmp_path / f"bomb{ENDING}"
    path.write_bytes(
        sparse_file({"weight": ZEROS | {"shape": shape}, "bias": ZEROS | {"shape": [2]}})
    )
    assert path.stat().st_size < 500
    done = python("-c", TINY_BOMB, str(path))
    assert done.returncode == 0, done.stderr
    limit, shapes, seconds, kilobytes = done.stdout.splitlines()
    assert "more than the limit" in limit
    assert "weight is" in shapes
    assert float(seconds) < 0.5
    assert int(kilobytes) < 20_000


def test_many_tensors_within_the_limit_are_too_many_together(tmp_path):
    path = tmp_path / f"many{ENDING}"
    path.write_bytes(
        sparse_file({f"{number}": ZEROS | {"shape": [2**20]} for number in range(5000)})
    )
    packed = load(path)
    with pytest.raises(
        ValueError, match="20,971,520,000 bytes, more than the limit"
    ):  # 5 000 of 4 MiB
        packed.state_dict()


def test_a_huge_tensor_has_a_table_without_being_decoded(tmp_path):
    path = tmp_path / f"bomb{ENDING}"
    path.write_bytes(sparse_file({"w": ZEROS | {"shape": [2**40]}}))
    began = time.process_time()
    assert "1099511627776" in str(load(path))
    assert time.process_time() - began < 1


def test_many_tensors_that_are_nearly_large_do_not_hold_up_the_table(tmp_path):
    path = tmp_path / f"many{ENDING}"
    path.write_bytes(sparse_file({f"{number}": ZEROS | {"shape": [2**24]} for number in range(20)}))
    began = time.process_time()
    assert str(load(path)).count("gaps") == 20
    assert time.process_time() - began < 2  # zipping all of them takes six seconds


def test_a_model_is_not_changed_by_a_file_that_breaks_half_way(tmp_path):
    path = tmp_path / f"half{ENDING}"
    content = sparse_file(
        {"bias": ZEROS | {"shape": [8]}, "weight": KEPT | {"shape": [8, 1]}},
        {"weight:values": ARRAYS["w:values"], "weight:quotients": ("U8", [1], b"\x01")},
    )
    path.write_bytes(content)
    model = nn.Linear(1, 8)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(ValueError, match="weight"):
        load(path).into(model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_no_flipped_bit_goes_unnoticed(refused, valid):
    for index in range(0, len(valid), 5):
        refused(valid[:index] + bytes([valid[index] ^ 1 << index % 8]) + valid[index + 1 :])


def test_a_file_without_a_checksum_is_one_of_an_earlier_version_and_is_read(opened):
    assert opened(sparse_file({"crc32": ZEROS}))["crc32"].tolist() == [0] * 8


@pytest.mark.parametrize("code", ["", "0", "0000000g", "00000000", "000000000"])
def test_a_checksum_that_does_not_match_is_refused(code, refused):
    assert "it is damaged: its" in refused(sparse_file({"w": ZEROS}, crc32=code))


def test_an_unknown_entry_of_the_metadata_is_refused(refused):
    assert "unknown entry 'other'" in refused(sparse_file({"w": ZEROS}, other="text"))


def test_errors_and_tables_are_printable_whatever_the_names(tmp_path):
    name, path = "a\nb\x1b[2J", tmp_path / "x.sparse.safetensors"
    compress({name: torch.zeros(3, 4), "c": torch.ones(2)}).save(path)
    assert "a\\nb\\x1b[2J" in str(load(path))
    raw = encode_sg(compress({name: torch.zeros(3, 4)}).entries, {})[0]
    huge = raw.replace(b"J\x03\x08", b"J" + varint(2**40) + varint(2**41), 1)
    assert huge != raw
    file = tmp_path / "x.sg"
    file.write_bytes(huge[:-4] + zlib.crc32(huge[:-4]).to_bytes(4, "little"))
    with pytest.raises(ValueError, match=r"x\.sg") as refused:
        load(file)
    assert str(refused.value).isprintable()
