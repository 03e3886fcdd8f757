"""How much longer `import sparsegate` takes than `import torch`, and `import sparsegate_runtime` than `import numpy`.

python benchmarks/import_time.py --out results/import-time.json
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from sparsegate_lab.train import machine, versions

PAIRS = (("sparsegate", "torch"), ("sparsegate_runtime", "numpy"))
ROUNDS = 15


def seconds(module: str) -> float:
    """The time that a fresh interpreter takes to import a module."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - begin


def main() -> None:
    """Imports in turn, and prints and writes the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the record (JSON)")
    out = parser.parse_args().out
    rows = []
    for ours, theirs in PAIRS:
        times = [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)]
        mine, base = (median(column) for column in zip(*times, strict=True))
        extra = median(first - second for first, second in times)
        row = {
            "module": ours,
            "seconds": mine,
            "base": theirs,
            "base_seconds": base,
            "extra": extra,
        }
        rows.append(
            {
                name: round(value, 4) if isinstance(value, float) else value
                for name, value in row.items()
            }
        )
        print(f"import {ours}: {mine:.3f} s, import {theirs}: {base:.3f} s, {extra:.3f} s more")
    if out:
        command = shlex.join(["python", *sys.argv])
        record = {
            "command": command,
            "machine": machine(),
            "versions": versions(),
            "rounds": ROUNDS,
            "rows": rows,
        }
        out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
