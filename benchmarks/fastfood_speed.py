"""How long Fastfood-1024 takes in the place of LeNet-5's fc1: by the kernel, by torch, and beside a dense layer.

Medians of interleaved calls on a CPU, without gradients: python benchmarks/fastfood_speed.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sparsegate.runtime import interleaved
from sparsegate_lab.methods.fastfood import FastfoodLayer
from sparsegate_lab.train import machine, versions

INPUTS, FEATURES = 800, 1024
BATCHES = (1, 16, 128, 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each batch")
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    torch.manual_seed(0)
    rows = [timed(batch, options.seconds) for batch in BATCHES]
    result = {
        "title": f"Fastfood of {INPUTS} inputs and {FEATURES} features on a CPU, microseconds",
        "command": f"python benchmarks/fastfood_speed.py --seconds {options.seconds:g}",
        "machine": machine(),
        "versions": versions(),
        "timings": rows,
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "fastfood-speed.json").write_text(json.dumps(result, indent=1) + "\n")
    for row in rows:
        print(row)


@torch.no_grad()
def timed(batch: int, seconds: float) -> dict[str, Any]:
    """The three ways on one batch, and how many times as fast the kernel is."""
    dense = nn.Linear(INPUTS, FEATURES)
    layer, x = FastfoodLayer(dense, features=FEATURES), torch.randn(batch, INPUTS)
    assert torch.allclose(layer.fused(x), layer.plain(x), atol=1e-4)
    ways = {
        "kernel": lambda: layer.fused(x),
        "torch": lambda: layer.plain(x),
        "dense": lambda: dense(x),
    }
    times = {
        name: round(1e6 * each, 2)
        for name, each in interleaved(ways, seconds=seconds, most=1000).items()
    }
    ratios = {
        f"over_{name}": round(times[name] / times["kernel"], 2) for name in ("torch", "dense")
    }
    return {"batch": batch, "threads": torch.get_num_threads(), **times, **ratios}


if __name__ == "__main__":
    main()
