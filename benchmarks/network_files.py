"""Which networks of the zoo run from a file in a process without torch, what they compute, and how large the files are.

Writes results/network-files.json. A network that cannot be saved stands there with the reason. With --ratio the
named networks are timed against `sg.sparse`, in turns, on one thread. With --add the rows of other networks stay as
they are. The seconds to save are those of the processor, which other programs do not lengthen.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree
from zoo import ZOO, network

import sparsegate as sg
from sparsegate.bench import machine, versions
from sparsegate_runtime import Network
from sparsegate_runtime.atomic import write_atomically

RECORD = Path(__file__).parent.parent / "results" / "network-files.json"
ROUNDS = 15
ALONE = """
import sys
import numpy as np
sys.modules["torch"] = None
from sparsegate_runtime import Network
given = np.load(sys.argv[2])
found = Network.load(sys.argv[1])(*(given[name] for name in given.files))
found = found if isinstance(found, tuple) else (found,)
np.savez(sys.argv[3], *found)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(ZOO))
    parser.add_argument("--ratio", nargs="*", default=[], help="networks to time")
    parser.add_argument("--add", action="store_true", help="keep the rows of other networks")
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    torch.set_num_threads(1)
    before = json.loads(options.out.read_text())["rows"] if options.add else []
    rows = [row for row in before if row["network"] not in options.names]
    for name in options.names:
        torch.manual_seed(0)
        row = tried(name, timed=name in options.ratio)
        rows.append(row)
        print(json.dumps(row), flush=True)
        record = {
            "title": "Networks of the zoo that run from a file without torch",
            "command": shlex.join(["python", *sys.argv]),
            "seed": 0,
            "machine": machine(),
            "versions": versions() | {"numpy": np.__version__},
            "rows": rows,
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


def tried(name: str, *, timed: bool) -> dict[str, Any]:
    """What became of a network."""
    model, given = network(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.sgn"
        began = time.process_time()
        try:
            saved = sg.save_network(model, given, path)
        except ValueError as error:
            return {"network": name, "runs": False, "why": str(error)}
        seconds = time.process_time() - began
        difference = alone(model, given, path)
        sizes = {size for one in Network.load(path).inputs for size in one.shape}
        row = {
            "network": name,
            "runs": difference <= 1e-4,
            "difference": difference,
            "file_bytes": saved.num_bytes,
            "graph_bytes": saved.graph_bytes,
            "sg_bytes": sg_bytes(model),
            "varying": sorted(size for size in sizes if isinstance(size, str)),
            "seconds_to_save": round(seconds, 1),
        }
        if timed:
            row["time_over_sparse"] = ratio(model, given, path)
    return row


def sg_bytes(model: nn.Module) -> int:
    """Bytes of the model's `.sg` file, without its operations."""
    with tempfile.TemporaryDirectory() as folder:
        sg.compress(model).save(Path(folder) / "model.sg")
        return (Path(folder) / "model.sg").stat().st_size


def arrays(given: Any) -> list[Any]:
    """The tensors of the inputs, in order."""
    return [one.numpy() for one in _pytree.tree_leaves(given)]


def wanted(model: nn.Module, given: Any) -> list[Any]:
    """What the model computes."""
    args, kwargs = ((), given) if isinstance(given, dict) else ((given,), {})
    with torch.no_grad():
        out = model(*args, **kwargs)
    return [one.numpy() for one in _pytree.tree_leaves(out) if isinstance(one, torch.Tensor)]


def alone(model: nn.Module, given: Any, path: Path) -> float:
    """The largest difference of a run in a process that cannot import torch, over the largest output."""
    inputs, outputs = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    np.savez(inputs, *arrays(given))
    subprocess.run([sys.executable, "-c", ALONE, path, inputs, outputs], check=True)
    found = np.load(outputs)
    pairs = zip((found[name] for name in found.files), wanted(model, given), strict=True)
    return max(float(np.abs(a - b).max() / max(1e-30, np.abs(b).max())) for a, b in pairs)


def ratio(model: nn.Module, given: Any, path: Path) -> float:
    """Time of the runtime over time of `sg.sparse`, the least of several rounds in turns."""
    fast, net, inputs = sg.sparse(model, given), Network.load(path), arrays(given)
    net.threads = 1
    args, kwargs = ((), given) if isinstance(given, dict) else ((given,), {})
    best = [float("inf"), float("inf")]
    with torch.no_grad():
        ways: list[Callable[[], Any]] = [lambda: net(*inputs), lambda: fast(*args, **kwargs)]
        for _ in range(ROUNDS):
            for index, way in enumerate(ways):
                began = time.perf_counter()
                way()
                best[index] = min(best[index], time.perf_counter() - began)
    return round(best[0] / best[1], 3)


if __name__ == "__main__":
    main()
