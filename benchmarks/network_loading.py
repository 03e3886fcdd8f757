"""How long a network file of BERT-base's size loads, and how much memory it takes. Writes results/network-loading.json.

Weights are random and 90 % of those of matrices are zero; the embedding is whole. Seconds are those of the processor,
which other programs on the machine hardly change, the least of several processes.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sparsegate.bench import machine, versions
from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n
from sparsegate_runtime.network_file import Capture, Symbol, encode, sketch_of

RECORD = Path(__file__).parent.parent / "results" / "network-loading.json"
LAYERS, WIDTH, INNER, WORDS, TOKENS, HEADS = 12, 768, 3072, 30522, 128, 12
PROCESSES = 5
LOAD = """
import json, resource, sys, time
began = time.process_time()
import numpy as np
numpy_seconds = time.process_time() - began
began = time.process_time()
import sparsegate_runtime
package_seconds = time.process_time() - began
began = time.process_time()
from sparsegate_runtime import Network
engine_seconds = time.process_time() - began
def memory():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before, began, clock = memory(), time.process_time(), time.perf_counter()
net = Network.load(sys.argv[1])
seconds, elapsed = time.process_time() - began, time.perf_counter() - clock
grown = memory() - before
began = time.process_time()
net(np.ones((1, 128), np.int64))
first = time.process_time() - began
print(json.dumps({"import_numpy": numpy_seconds, "import_package": package_seconds, "import_engine": engine_seconds,
    "load": seconds, "load_elapsed": elapsed, "load_bytes": grown, "first_call": first,
    "bytes_after_first_call": memory() - before}))
"""


class Bert:
    """The weights of an encoder, and its nodes for any batch."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.weights: dict[str, Any] = {}
        self.nodes: list[n.Node] = []

    def weight(self, name: str, *shape: int, kept: float = 0.1) -> Any:
        """A random weight, made once."""
        if name not in self.weights:
            array = self.random.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
            if len(shape) > 1 and kept < 1:
                array *= self.random.random(shape, dtype=np.float32) < kept
            self.weights[name] = array
        return self.weights[name]

    def add(self, node: n.Node) -> n.Node:
        self.nodes.append(node)
        return node

    def linear(self, read: n.Node, rows: int, name: str) -> n.Node:
        weight = self.weight(f"{name}.weight", rows, read.shape[-1])
        bias = self.weight(f"{name}.bias", rows)
        shape = (*read.shape[:-1], rows)
        return self.add(n.Linear(inputs=(read,), shape=shape, weight=weight, bias=bias, name=name))

    def summed(self, one: n.Node, other: n.Node, name: str) -> n.Node:
        both = self.add(n.Map(inputs=(one, other), shape=one.shape, function=Function.ADD))
        weight, bias = (self.weight(f"{name}.{part}", WIDTH) for part in ("weight", "bias"))
        norm = n.LayerNorm(inputs=(both,), shape=both.shape, weight=weight, bias=bias, eps=1e-12)
        return self.add(norm)

    def attention(self, read: n.Node, name: str) -> n.Node:
        batch, tokens, _ = read.shape
        split, order = (batch, tokens, HEADS, WIDTH // HEADS), (0, 2, 1, 3)
        heads = []
        for part in ("query", "key", "value"):
            made = self.linear(read, WIDTH, f"{name}.{part}")
            made = self.add(n.Reshape(inputs=(made,), shape=split))
            shape = (batch, HEADS, tokens, WIDTH // HEADS)
            heads.append(self.add(n.Permute(inputs=(made,), shape=shape, dimensions=order)))
        made = self.add(
            n.Attention(inputs=tuple(heads), shape=heads[0].shape, causal=False, scale=0.125)
        )
        made = self.add(n.Permute(inputs=(made,), shape=split, dimensions=order))
        return self.linear(
            self.add(n.Reshape(inputs=(made,), shape=read.shape)), WIDTH, f"{name}.out"
        )

    def network(self, batch: int) -> n.Network:
        self.nodes = []
        ids = self.add(n.Input(shape=(batch, TOKENS), index=0, name="input_ids", kind="int64"))
        table = self.weight("words.weight", WORDS, WIDTH, kept=1)
        shape = (batch, TOKENS, WIDTH)
        x = self.add(n.Embedding(inputs=(ids,), shape=shape, table=table, name="words"))
        for layer in range(LAYERS):
            x = self.summed(self.attention(x, f"{layer}"), x, f"{layer}.first")
            inner = self.linear(x, INNER, f"{layer}.up")
            inner = self.add(n.Map(inputs=(inner,), shape=inner.shape, function=Function.GELU))
            x = self.summed(self.linear(inner, WIDTH, f"{layer}.down"), x, f"{layer}.second")
        return n.Network(tuple(self.nodes), (x,))


def main() -> None:
    bert = Bert()
    captures = [Capture(bert.network(batch), {"batch": batch}) for batch in (2, 3)]
    raw = encode(sketch_of(captures, [Symbol("batch")]))
    kept = sum(int(np.count_nonzero(array)) for array in bert.weights.values())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bert.sgn"
        path.write_bytes(raw)
        command = [sys.executable, "-c", LOAD, str(path)]
        runs = [
            json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            for _ in range(PROCESSES)
        ]
    best = {name: min(run[name] for run in runs) for name in runs[0]}
    record = {
        "title": "A network file of BERT-base's size: import, loading, memory",
        "command": shlex.join(["python", *sys.argv]),
        "seed": 0,
        "machine": machine(),
        "versions": versions() | {"numpy": np.__version__},
        "file_bytes": len(raw),
        "graph_bytes": int.from_bytes(raw[4:8], "little"),
        "weights": sum(array.size for array in bert.weights.values()),
        "kept": kept,
        "kept_bytes": 4 * kept,
        "memory_over_kept": round(best["load_bytes"] / (4 * kept), 3),
        "seconds": {name: round(value, 3) for name, value in best.items() if "bytes" not in name},
        "bytes": {name: value for name, value in best.items() if "bytes" in name},
        "processes": PROCESSES,
    }
    write_atomically(RECORD, (json.dumps(record, indent=1) + "\n").encode())
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
