"""Writes the graph of a network file, and reads it with every check that needs no weights."""

from __future__ import annotations

from collections.abc import Sequence

from sparsegate_runtime.files import ByteReader, varint

from .fields import Named
from .kinds import KINDS, MOST_READS, NUMBERS, Kind
from .numbers import read_byte, read_text, text
from .sizes import MOST_SIZE
from .sketch import OperationRecord, Sketch, Symbol

MOST_SYMBOLS, MOST_NODES, MOST_OUTPUTS = 8, 2**16, 4096


def encode_graph(sketch: Sketch) -> bytes:
    """The graph as bytes."""
    if len(sketch.records) > MOST_NODES:
        raise ValueError(f"a file has at most {MOST_NODES:,} nodes, got {len(sketch.records):,}")
    named = Named(len(sketch.tensors))
    pieces = [varint(len(sketch.symbols))]
    for symbol in sketch.symbols:
        pieces.append(text(symbol.name))
        pieces += map(varint, (symbol.least, symbol.most, symbol.example))
    pieces.append(varint(len(sketch.records)))
    pieces += [_encode(record, index, named) for index, record in enumerate(sketch.records)]
    pieces.append(varint(len(sketch.outputs)))
    pieces += [varint(index) + text(name) for index, name in sketch.outputs]
    return b"".join(pieces)


def read_graph(raw: bytes, tensors: Sequence[str]) -> Sketch:
    """The network of a graph; its tensors have names and no values yet.

    Raises:
        ValueError: the graph is damaged.

    """
    reader, named = ByteReader(raw), Named(len(tensors))
    symbols = [_read_symbol(reader) for _ in range(reader.varint(MOST_SYMBOLS))]
    records: list[OperationRecord] = []
    for index in range(_count(reader, MOST_NODES, "nodes")):
        records.append(_read(reader, index, named))
    outputs = []
    for _ in range(_count(reader, MOST_OUTPUTS, "outputs")):
        outputs.append((reader.varint(len(records) - 1), read_text(reader)))
    if reader.position != len(raw):
        raise ValueError(f"{len(raw) - reader.position} bytes are left over after the graph")
    if named.first != len(tensors):
        raise ValueError(f"no node reads the tensor {tensors[named.first]!r}")
    _check_names([name for _, name in outputs], "outputs")
    _check_names([one.fields["name"] for one in records if one.kind == "input"], "inputs")
    _check_names([symbol.name for symbol in symbols], "symbols")
    return Sketch(symbols, records, outputs, dict.fromkeys(tensors))


def _count(reader: ByteReader, most: int, what: str) -> int:
    count = reader.varint(most)
    if not count:
        raise ValueError(f"it has no {what}, expected at least one")
    return count


def _encode(record: OperationRecord, index: int, named: Named) -> bytes:
    kind = KINDS[NUMBERS[record.kind]]
    least, most = kind.reads
    head = bytes([NUMBERS[record.kind]])
    if least != most:
        head += varint(len(record.reads))
    head += b"".join(varint(index - 1 - read) for read in record.reads)
    return head + b"".join(
        field.encode(record.fields[name], named) for name, field in kind.fields.items()
    )


def _read(reader: ByteReader, index: int, named: Named) -> OperationRecord:
    kind = KINDS[read_byte(reader, len(KINDS) - 1, "a kind of node")]
    reads = [_read_index(reader, index) for _ in range(_num_reads(reader, kind))]
    fields = {name: field.read(reader, named) for name, field in kind.fields.items()}
    return OperationRecord(kind.name, tuple(reads), fields)


def _num_reads(reader: ByteReader, kind: Kind) -> int:
    least, most = kind.reads
    count = least if least == most else reader.varint(MOST_READS)
    if not least <= count <= most:
        raise ValueError(
            f"a node ({kind.name}) before byte {reader.position} reads {count} nodes, expected "
            f"{least} to {most}"
        )
    return count


def _read_index(reader: ByteReader, index: int) -> int:
    if not index:
        raise ValueError("the first node reads another node, but there is none before it")
    return index - 1 - reader.varint(index - 1)


def _read_symbol(reader: ByteReader) -> Symbol:
    name = read_text(reader)
    least, most, example = (reader.varint(MOST_SIZE) for _ in range(3))
    if most and most < least:
        raise ValueError(f"the least {name} is {least}, more than the largest, {most}")
    symbol = Symbol(name, least, most, example)
    symbol.check(example)
    return symbol


def _check_names(names: Sequence[str], what: str) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"two {what} have the same name")
