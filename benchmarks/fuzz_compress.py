"""Damages valid files of both containers in every way we know and opens them: refused with ValueError, or decoded."""

from __future__ import annotations

import argparse
import collections
import json
import random
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sparsegate.files import compress, load, quantise_
from sparsegate.graph import order_units_
from sparsegate_lab.models import LeNet300
from sparsegate_lab.train import machine, versions
from sparsegate_runtime.files.sg.bytestream import varint

LIMIT = 2**26
SLOW = 2.0
NUMBERS = (
    0,
    1,
    -1,
    7,
    31,
    32,
    255,
    2**16,
    2**31,
    2**32,
    2**40,
    2**47,
    2**48,
    2**62,
    2**63,
    2**64,
    10**30,
)
ODD = (
    *NUMBERS,
    None,
    True,
    0.5,
    float("nan"),
    "",
    "gaps",
    "bitmap",
    "rows",
    "dense",
    "kept",
    "removed",
    "F32",
    "BF16",
)
ODD += ("U8", [], {}, [0], [2**40], [0, 2**63], [1] * 65, "weight", "weight:values")
Draw = random.Random
Change = Callable[[Draw, bytes, list[bytes]], bytes]


SAFETENSORS, SG = ".sparse.safetensors", ".sg"
MAX_MEMORY = LIMIT + 2**28
"""Bytes that an input may make the process grow by: what the limit allows, decoding, and a measure's slack."""


def networks() -> list[dict[str, torch.Tensor]]:
    """Networks of all sparsities, types and shapes, with ties, buffers, empty tensors and scalars."""
    torch.manual_seed(0)
    found: list[dict[str, torch.Tensor]] = [{}]
    for kind in (
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int8,
        torch.int64,
    ):
        for sparsity in (0.0, 0.1, 0.5, 0.9, 0.99, 1.0):
            weight = (torch.randn(40, 30) * 50).mul(torch.rand(40, 30) >= sparsity).to(kind)
            few = torch.zeros(2, 300, dtype=kind)
            few[1, 123] = 1
            found.append(
                {"weight": weight, "few": few, "bias": torch.ones(7, dtype=kind), "tied": weight}
            )
    norm = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).state_dict()
    found.append(dict(norm) | {"empty": torch.zeros(0, 4), "zeros": torch.zeros(9, 9)})
    ordered = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 5))
    with torch.no_grad():
        for each in ordered.parameters():
            each.mul_(torch.rand(each.shape) < 0.2)
    quantise_(ordered, bits=3)
    order_units_(ordered, torch.zeros(1, 30))
    found.append(dict(ordered.state_dict()))
    small = LeNet300()
    with torch.no_grad():
        for each in small.parameters():
            each.mul_(torch.rand(each.shape) < 0.01)
    return [*found, dict(small.state_dict())]


def flipped(draw: Draw, file: bytes, others: list[bytes]) -> bytes:
    """Some bits are changed, in the header or anywhere."""
    content = bytearray(file)
    end = draw.choice((len(file), _end(file), min(64, len(file))))
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        content[draw.randrange(end)] ^= 1 << draw.randrange(8)
    return bytes(content)


def overwritten(draw: Draw, file: bytes, others: list[bytes]) -> bytes:
    """A run of bytes becomes random, zero or one."""
    begin, length = draw.randrange(len(file)), draw.choice((1, 2, 4, 8, 30))
    middle = draw.choice((draw.randbytes(length), bytes(length), b"\xff" * length))
    return (file[:begin] + middle + file[begin + length :])[: len(file)]


def cut(draw: Draw, file: bytes, others: list[bytes]) -> bytes:
    """The end is missing, or a piece out of the middle."""
    begin = draw.randrange(len(file))
    return file[:begin] + (file[begin + draw.randrange(1, 99) :] if draw.random() < 0.5 else b"")


def spliced(draw: Draw, file: bytes, others: list[bytes]) -> bytes:
    """The start of one file and the end of another; or one's header and the other's tensors."""
    other = draw.choice(others)
    if draw.random() < 0.5:
        return file[: _end(file)] + other[_end(other) :]
    return file[: draw.randrange(len(file))] + other[draw.randrange(len(other)) :]


def edited(draw: Draw, file: bytes, others: list[bytes]) -> bytes:
    """One value in the header, or in the description of a tensor in it, becomes another."""
    header = json.loads(file[8 : _end(file)])
    tensors = json.loads(header["__metadata__"]["tensors"])
    tables = [
        header["__metadata__"],
        header,
        *(each for name, each in header.items() if name != "__metadata__"),
    ]
    table = draw.choice([*tables, tensors, *tensors.values(), *tensors.values()])
    if table:
        _edit(draw, table)
    if isinstance(header.get("__metadata__"), dict) and table not in tables:
        header["__metadata__"]["tensors"] = json.dumps(tensors)
    return _file(header, file[_end(file) :])


def swapped(draw: Draw, file: bytes, others: list[bytes]) -> bytes:
    """Two tensors of the file change places, names or descriptions."""
    header = json.loads(file[8 : _end(file)])
    names = [name for name in header if name != "__metadata__"]
    if len(names) >= 2:
        one, two = draw.sample(names, 2)
        for key in draw.choice(
            (["data_offsets"], ["data_offsets", "shape"], ["data_offsets", "shape", "dtype"])
        ):
            header[one][key], header[two][key] = header[two][key], header[one][key]
    return _file(header, file[_end(file) :])


def inflated(draw: Draw, file: bytes, others: list[bytes]) -> bytes:
    """A byte in the first hundred, where lengths and counts stand, becomes a number of several, or an absurd one."""
    place = draw.randrange(3, min(len(file), 120))
    return file[:place] + varint(draw.choice(SIZES)) + file[place + draw.randrange(3) :]


def bomb(draw: Draw, file: bytes, others: list[bytes]) -> bytes:
    """A few bytes that tell of huge tensors, full, empty, or told by order."""
    rows, columns = draw.choice(SIZES), draw.choice(SIZES)
    count = draw.choice((1, 1, 3, 50))
    names = b"".join(
        varint(2)
        + bytes([65 + place // 26, 65 + place % 26, 11, 2])
        + varint(rows)
        + varint(columns)
        for place in range(count)
    )
    kept = draw.choice((1, rows, rows * columns, rows * columns - 1)) % 2**50
    side = (
        varint(draw.choice((2, 3, 4)))
        + draw.choice((b"", b"\0\0", b"\2\5\2\5"))
        + varint(2 * kept + draw.randrange(2))
    )
    lanes = draw.choice((1, 4, 4096))
    head = b"sg\2" + varint(lanes) + varint(0) + varint(count) + names + varint(0) + side * count
    return head + draw.randbytes(4 * lanes) + draw.randbytes(draw.choice((0, 2, 40))) + b"\0\0\0\0"


CHANGES: dict[str, tuple[Change, ...]] = {
    SAFETENSORS: (flipped, overwritten, cut, spliced, edited, edited, swapped),
    SG: (flipped, flipped, overwritten, cut, spliced, inflated, inflated, bomb),
}
SIZES = (
    0,
    1,
    2,
    127,
    128,
    255,
    512,
    513,
    4096,
    2**16,
    2**20,
    2**24,
    2**31,
    2**32,
    2**40,
    2**47,
    2**61,
)


def _end(file: bytes) -> int:
    """Where the head of a file ends, or about that."""
    return min(len(file), 100) if file[:2] == b"sg" else 8 + int.from_bytes(file[:8], "little")


def _signed(content: bytes) -> bytes:
    """The file with a right checksum, so that what is behind it is tried too."""
    return content[:-4] + zlib.crc32(content[:-4]).to_bytes(4, "little")


def _file(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def _edit(draw: Draw, table: dict[str, Any]) -> None:
    key = draw.choice(list(table))
    how = draw.random()
    if how < 0.15:
        del table[key]
    elif how < 0.25:
        table[draw.choice(("same", "rice", "weight", "few:mask", "é"))] = table[key]
    elif isinstance(table[key], list) and table[key] and how < 0.7:
        table[key] = [*table[key]]
        table[key][draw.randrange(len(table[key]))] = draw.choice(NUMBERS)
    elif isinstance(table[key], int) and how < 0.6:
        table[key] += draw.choice((-1, 1, 8, -8))
    else:
        table[key] = draw.choice(ODD)


def attempt(path: Path, content: bytes) -> str:
    """What becomes of an input: refused or accepted, or else the fault it shows."""
    path.write_bytes(content)
    was, peak = _memory("VmRSS"), _memory("VmHWM")
    began = time.process_time()  # of this process alone: others may share its core
    try:
        packed = load(path, limit=LIMIT)
        found = packed.state_dict(limit=LIMIT)
        shapes = {name: packed.entries[packed.same.get(name, name)].shape for name in packed}
        outcome = "accepted"
        if {name: tuple(each.shape) for name, each in found.items()} != shapes:
            outcome = "fault: accepted with other shapes than described"
    except ValueError as error:
        outcome = "refused" if str(error) else "fault: no message"
    except Exception as error:  # every kind is what we look for
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"fault: {type(error).__name__} in {Path(where.filename).name}:{where.name}: {str(error)[:80]}"
    if _memory("VmRSS") - was > MAX_MEMORY or _memory("VmHWM") > max(peak, was + MAX_MEMORY):
        return f"fault: took more memory than the limit allows ({outcome})"
    return (
        outcome
        if time.process_time() - began < SLOW
        else f"fault: took over {SLOW} s of processor time ({outcome})"
    )


def _memory(key: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[key].split()[0])


def tried(ending: str, seconds: float, draw: Draw, faults: Path | None) -> dict[str, Any]:
    """How many inputs of one container were tried, and what became of them."""
    outcomes: collections.Counter[str] = collections.Counter()
    changes: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"input{ending}"
        files = []
        for each in networks():
            compress(each).save(path)
            files.append(path.read_bytes())
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            change = draw.choice(CHANGES[ending])
            content = changed(draw, change, files, ending)
            outcome = attempt(path, content)
            if faults and outcome.startswith("fault") and not outcomes[outcome]:
                faults.mkdir(parents=True, exist_ok=True)
                (faults / f"{len(outcomes)}{ending}").write_bytes(content)
            outcomes[outcome] += 1
            changes[change.__name__]["accepted" if outcome == "accepted" else "other"] += 1
    return {
        "tried": outcomes.total(),
        "refused": outcomes["refused"],
        "accepted": outcomes["accepted"],
        "faults": {name: count for name, count in outcomes.items() if name.startswith("fault")},
        "tried_by_change": {name: each.total() for name, each in sorted(changes.items())},
        "accepted_by_change": {name: each["accepted"] for name, each in sorted(changes.items())},
    }


def changed(draw: Draw, change: Change, files: list[bytes], ending: str) -> bytes:
    """A damaged file, sometimes twice; nearly all of those that have a checksum get a right one."""
    content = change(draw, draw.choice(files), files)
    if draw.random() < 0.1 and len(content) > 8:
        content = overwritten(draw, content, files)
    return _signed(content) if ending == SG and draw.random() < 0.9 else content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=240, help="half of them for each container"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--faults", type=Path, help="a folder for one input of every fault")
    options = parser.parse_args()
    draw = Draw(options.seed)
    counts = {
        ending: tried(ending, options.seconds / 2, draw, options.faults)
        for ending in (SAFETENSORS, SG)
    }
    faults = [fault for each in counts.values() for fault in each["faults"]]
    result = {
        "title": "Mutated files of both containers, opened and decoded",
        "command": f"python benchmarks/fuzz_compress.py --seconds {options.seconds:g} --seed {options.seed}",
        "seed": options.seed,
        "seconds": options.seconds,
        "machine": machine(),
        "versions": versions(),
        "tried": sum(each["tried"] for each in counts.values()),
        **counts,
    }
    options.results.mkdir(exist_ok=True)
    (options.results / "fuzz-compress.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(counts))
    if faults:
        raise SystemExit(f"{len(faults)} kinds of faults")


if __name__ == "__main__":
    main()
