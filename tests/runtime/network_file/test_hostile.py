"""Damaged network files with valid checksums: an error in words, or a network that runs."""

import zlib

import numpy as np
import pytest

from sparsegate_runtime import Network
from sparsegate_runtime.network_file import encode


def mutated(raw, random):
    """The file with some bytes of its graph or weights changed, and checksums that are right."""
    end = 16 + int.from_bytes(raw[4:8], "little")
    graph, weights = bytearray(raw[16:end]), bytearray(raw[end + 4 : -4])
    part = graph if random.random() < 0.8 else weights
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(0, len(part)))
        what = random.random()
        if what < 0.6:
            part[at] = int(random.integers(0, 256))
        elif what < 0.75:
            part[at] ^= 1 << int(random.integers(0, 8))
        elif what < 0.85:
            del part[at]
        elif what < 0.95:
            part.insert(at, int(random.integers(0, 256)))
        else:
            del part[at:]
            break
        if not part:
            break
    head = b"sgn\1" + len(graph).to_bytes(4, "little") + (len(weights) + 4).to_bytes(8, "little")
    return b"".join(_signed(head + graph)) + b"".join(_signed(weights))


def _signed(part):
    return bytes(part), zlib.crc32(bytes(part)).to_bytes(4, "little")


def attempt(raw):
    """Runs a file on inputs of its shapes; the error in words, or None."""
    try:
        network = Network.from_bytes(raw)
        given = []
        for info in network.inputs:
            shape = [size if isinstance(size, int) else 2 for size in info.shape]
            if np.prod(shape, dtype=float) > 1e5:
                return "too large to try"
            given.append(np.ones(shape, info.type))
        network.threads = 1
        found = network(*given)
    except ValueError as error:
        return str(error)
    assert found is not None
    return None


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_file_is_refused_in_words_or_runs(sketch, seed):
    raw, random = encode(sketch), np.random.default_rng(seed)
    found = [attempt(mutated(raw, random)) for _ in range(400)]
    refused = [words for words in found if words is not None]
    assert len(refused) > 100
    assert all(len(words) > 10 for words in refused)
    assert None in found
