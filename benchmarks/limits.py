"""Measures how near whole networks come to the limits: python benchmarks/limits.py [--part share memory planning].

- share: what part of the kernel's peak rate a network reaches at batch 16, counting multiplications
  with kept weights only. The peak is measured on this machine: one load from the first-level cache
  for each multiply-add.
- memory: resident memory after one call, of the ordinary model and of the result of `sg.sparse`.
  Each runs in a separate process, and the memory of the libraries is subtracted.
- planning: seconds of `sg.sparse` for a network of more than fifty convolutions.

Writes results/limits.json; parts that are not measured keep their rows.
"""

from __future__ import annotations

import argparse
import gc
import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree
from zoo import ZOO

from sparsegate.bench import Given, machine, versions
from sparsegate.runtime import sparse
from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.engine.peak import peak
from sparsegate_runtime.kernels import KERNELS

NETWORKS = ("resnet-18", "bert", "vit")
MANY = "resnet-50"
"""A network of 53 convolutions."""
ROUNDS = 7
Row = dict[str, Any]


def share(name: str, batch: int) -> Row:
    """The rate of a whole network beside the peak."""
    model, given = _case(name, batch)
    fast = sparse(model, given.example)
    call = given.call(fast)
    with torch.inference_mode():
        call(*given.tensors)
        seconds = statistics.median(_seconds(call, given) for _ in range(ROUNDS))
        forward: Any = fast.__dict__["forward"]
        (planned,) = forward.plans.values()
        spans = planned.spans(_pytree.tree_leaves(given.example))
    assert KERNELS is not None
    work, most = sum(span.work for span in spans), peak(KERNELS.sg_variant())
    return {
        "network": name,
        "batch": batch,
        "milliseconds": round(1e3 * seconds, 3),
        "gflop_with_kept_weights": round(work / 1e9, 4),
        "gflops": round(work / seconds / 1e9, 2),
        "peak_gflops": round(most / 1e9, 2),
        "share": round(work / seconds / most, 3),
    }


def planning(batch: int) -> Row:
    """Seconds of `sg.sparse`, after the libraries were loaded."""
    _load_libraries()
    model, given = _case(MANY, batch)
    began = time.perf_counter()
    sparse(model, given.example)
    seconds = round(time.perf_counter() - began, 2)
    count = sum(isinstance(module, nn.Conv2d) for module in model.modules())
    return {"network": MANY, "batch": batch, "convolutions": count, "seconds": seconds}


def memory(name: str) -> Row:
    """Resident memory of the ordinary and of the sparse model, in processes of their own."""
    found = {}
    for way in ("ordinary", "sparse"):
        words = [sys.executable, __file__, "--resident", way, name]
        found[way] = int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    ratio = round(found["sparse"] / found["ordinary"], 3)
    return {"network": name, "batch": 1, "bytes": found, "sparse_over_ordinary": ratio}


def resident(way: str, name: str) -> int:
    """Bytes that a model and its first call add to this process."""
    _load_libraries()
    before = _resident()
    model, given = _case(name, 1)
    if way == "sparse":
        model = sparse(model, given.example)
    gc.collect()
    with torch.inference_mode():
        given.call(model)(*given.tensors)
    return _resident() - before


def _case(name: str, batch: int) -> tuple[nn.Module, Given]:
    torch.manual_seed(0)
    return ZOO[name].model(), Given(ZOO[name].inputs(batch))


def _load_libraries() -> None:
    """Loads what the first call of `sg.sparse` imports."""
    tiny = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    sparse(tiny.eval(), torch.zeros(1, 3, 8, 8))


def _resident() -> int:
    with Path("/proc/self/status").open() as lines:
        (line,) = (line for line in lines if line.startswith("VmRSS"))
    return 1024 * int(line.split()[1])


def _seconds(call: Callable[..., Any], given: Given) -> float:
    began = time.perf_counter()
    call(*given.tensors)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="*", default=["share", "memory", "planning"])
    parser.add_argument("--only", nargs="*", default=list(NETWORKS))
    parser.add_argument("--resident", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("results/limits.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.resident:
        print(resident(*options.resident))
        return
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    made: dict[str, Callable[[], list[Row]]] = {
        "share": lambda: [share(name, 16) for name in options.only],
        "memory": lambda: [memory(name) for name in options.only],
        "planning": lambda: [planning(batch) for batch in (1, 16)],
    }
    for part in options.part:
        found[part] = made[part]()
        print(json.dumps(found[part]), flush=True)
    head = {
        "title": "How near to the limits: share of the kernel's peak, memory, planning time",
        "command": shlex.join(["python", "benchmarks/limits.py", *sys.argv[1:]]),
        "seed": 0,
        "threads": 1,
        "machine": machine(),
        "versions": versions(),
    }
    parts = {part: found[part] for part in made if part in found}
    write_atomically(options.out, (json.dumps({**head, **parts}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
