"""A small file cannot take the machine's memory."""

import zlib
from pathlib import Path

import pytest

from sparsegate_runtime.files import read
from sparsegate_runtime.files.limit import check_limit, default_limit, machine_memory
from sparsegate_runtime.files.sg.bytestream import varint
from sparsegate_runtime.files.sg.shapes import encode_shapes

BOMB = """
import resource, sys
from sparsegate_runtime.files import read
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read(sys.argv[1])
except ValueError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def zeros(path, version, shape):
    """A file of a tensor of zeros."""
    listed = varint(0) + varint(1) + b"\1w\x0b" + varint(len(shape)) + b"".join(map(varint, shape))
    head = listed if version == 2 else encode_shapes({"w": ("F32", shape)})
    raw = b"sg" + bytes([version, 1]) + head + varint(0) + varint(0) + b"\0\0\1\0"
    path.write_bytes(raw + zlib.crc32(raw).to_bytes(4, "little"))
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_of_26_bytes_does_not_take_gigabytes(version, python, tmp_path):
    path = zeros(tmp_path / "bomb.sg", version, (2**30,))
    assert path.stat().st_size <= 26
    done = python("-c", BOMB, str(path))
    message, kilobytes = done.stdout.splitlines()
    assert "4,294,967,296 bytes, more than the limit of" in message
    assert int(kilobytes) < 100_000


@pytest.mark.parametrize("version", [2, 3])
def test_a_small_network_of_zeros_is_read(version, tmp_path):
    assert read(zeros(tmp_path / "zeros.sg", version, (1000, 1000)))["w"].shape == (1000, 1000)


def test_the_default_knows_the_machine_and_the_file():
    half = machine_memory() // 2
    assert default_limit() == half
    assert default_limit(26) == min(half, 2**28)
    assert default_limit(2**17) == min(half, 2**29)
    assert default_limit(2**60) == half


def test_no_more_than_the_machine_has_is_made():
    kilobytes = int(Path("/proc/meminfo").read_text().split()[1])
    assert 2**26 < machine_memory() <= 1024 * kilobytes


def test_a_limit_that_is_given_counts_alone():
    check_limit(100, 100, file_bytes=1)
    with pytest.raises(ValueError, match="101 bytes, more than the limit of 100; raise limit="):
        check_limit(101, 100, file_bytes=1)
