"""Counts the lines that each way to prune adds to a program, and runs them: python benchmarks/added_lines.py.

The programs are in benchmarks/lines. A line is a statement, however it is wrapped. It counts if the dense program does
not have it; imports and docstrings do not count. Every program prints the fraction of weights that it keeps; all ask for 0.1.
"""

from __future__ import annotations

import ast
import difflib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from sparsegate.bench import machine, versions

ROOT = Path(__file__).parent.parent
LINES = ROOT / "benchmarks" / "lines"
ROUTES = {
    "own_loop_gates": "own_loop",
    "own_loop_torch_prune": "own_loop",
    "own_loop_nncf_magnitude": "own_loop",
    "own_loop_nncf_learned": "own_loop",
    "transformers_gates": "transformers_dense",
    "lightning_gates": "lightning_dense",
    "lightning_model_pruning": "lightning_dense",
}
"""Every program, and the dense one that it was made of."""


def added(route: str) -> list[str]:
    """The statements of a program that its dense control does not have, each on one line."""
    dense, sparse = (
        ast.unparse(ast.parse((LINES / f"{name}.py").read_text())).splitlines()
        for name in (ROUTES[route], route)
    )
    found = [line[2:].strip() for line in difflib.ndiff(dense, sparse) if line.startswith("+ ")]
    return [line for line in found if line and not line.startswith(("import ", "from ", '"', "'"))]


def kept(route: str) -> float | str:
    """The fraction of weights that a program keeps, or the last line of its error."""
    done = subprocess.run(
        [sys.executable, str(LINES / f"{route}.py")], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return float(done.stdout.rsplit("kept", 1)[1])


def main() -> None:
    rows: dict[str, Any] = {}
    for route in ROUTES:
        rows[route] = {"lines": len(added(route)), "added": added(route), "kept": kept(route)}
        print(route, rows[route], flush=True)
    record = {
        "title": "Lines that each way to prune adds to a dense program, without imports",
        "command": "python benchmarks/added_lines.py",
        "machine": machine(),
        "versions": versions("torch", "transformers", "lightning", "nncf"),
        "rows": rows,
    }
    path = ROOT / "results" / "added-lines.json"
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
