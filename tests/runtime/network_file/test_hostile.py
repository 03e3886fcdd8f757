"""Damaged network files with valid checksums: an error in words, or a network that runs."""

import zlib

import numpy as np

from sparsegate_runtime import Network
from sparsegate_runtime.network_file import Sketch, encode
from sparsegate_runtime.network_file.graph_bytes import read_graph


def mutated(part, random):
    """Some bytes with a few changes."""
    part = bytearray(part)
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
        if not part:
            break
    return bytes(part)


def parts_of(raw):
    """The graph and the weights of a file, without checksums."""
    end = 16 + int.from_bytes(raw[4:8], "little")
    return raw[16:end], raw[end + 4 : -4]


def joined(graph, weights):
    """A file whose checksums are right."""
    head = b"sgn\1" + len(graph).to_bytes(4, "little") + (len(weights) + 4).to_bytes(8, "little")
    return b"".join(_signed(head + graph)) + b"".join(_signed(weights))


def _signed(part):
    return bytes(part), zlib.crc32(bytes(part)).to_bytes(4, "little")


def attempt(make):
    """Runs a network on inputs of its shapes; the error in words, or None."""
    try:
        network = make()
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


def check(found):
    """Some are refused, each in words, and some run."""
    refused = [words for words in found if words is not None]
    assert len(refused) > len(found) / 3
    assert all(len(words) > 10 for words in refused)
    assert None in found


def test_mutated_graphs_are_refused_in_words_or_run(sketch):
    graph, _ = parts_of(encode(sketch))
    random, tensors = np.random.default_rng(0), dict(sketch.tensors)

    def network(raw):
        found = read_graph(raw, list(tensors))
        return Network(
            Sketch(found.symbols, found.records, found.outputs, tensors), file_bytes=2000
        )

    raws = [mutated(graph, random) for _ in range(2000)]
    check([attempt(lambda raw=raw: network(raw)) for raw in raws])


def test_mutated_weights_are_refused_in_words_or_run(sketch):
    (graph, weights), random = parts_of(encode(sketch)), np.random.default_rng(1)
    raws = [joined(graph, mutated(weights, random)) for _ in range(100)]
    check([attempt(lambda raw=raw: Network.from_bytes(raw)) for raw in raws])


def test_mutated_files_are_refused_in_words_or_run(sketch):
    raw, random = encode(sketch), np.random.default_rng(2)
    found = [attempt(lambda: Network.from_bytes(mutated(raw, random))) for _ in range(500)]
    assert len([words for words in found if words]) > 490
