"""Runs the fast tests with fresh seeds, and adds the outcome to results/torture.json.

A whole suite takes 16 minutes of one core. `--draws` leaves out the tests that drew no random
numbers when they ran last: another seed changes nothing for them. The record says which it was.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sparsegate.bench import machine, versions

from .record import add_suite


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.torture.suites", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to try")
    parser.add_argument("--minutes", type=float, default=9, help="begin no seed that would not end")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes of pytest")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--tests", nargs="+", default=["tests"], help="files or folders")
    parser.add_argument(
        "--draws", action="store_true", help="only tests that draw random numbers, or are unknown"
    )
    options = parser.parse_args()
    began, longest, red = time.monotonic(), 0.0, 0
    for _ in range(options.seeds):
        if time.monotonic() - began + longest > 60 * options.minutes:
            break
        seed = random.SystemRandom().randrange(10**6)
        suite = run_suite(seed, options.workers, options.tests, draws=options.draws)
        longest, red = max(longest, suite["seconds"]), red + (suite["status"] != 0)
        print(f"seed {suite['seed']}: {suite['summary']}", flush=True)
        add_suite(options.results / "torture.json", suite)
    if red:
        raise SystemExit(1)


def run_suite(seed: int, workers: int, tests: list[str], *, draws: bool = False) -> dict[str, Any]:
    """Runs the tests with one seed, and says what came of it."""
    words = [sys.executable, "-m", "pytest", "-q", "--numprocesses", str(workers)]
    words += ["--dist", "worksteal", f"--hypothesis-seed={seed}", *tests]
    words += ["--draws"] if draws else []
    given = {"SPARSEGATE_SEED": str(seed), "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    done = subprocess.run(
        words, env={**os.environ, **given}, text=True, capture_output=True, check=False
    )
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
    failed = [line.partition(" - ")[0] for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {
        "seed": seed,
        "tests": [Path(test).name for test in tests] if Path(tests[0]).is_absolute() else tests,
        "kind": "tests that draw random numbers" if draws else "all tests",
        "status": done.returncode,
        "summary": lines[-1].strip("= "),
        "failed": failed,
        "seconds": round(time.monotonic() - began),
        "machine": machine(),
        "versions": versions("torch", "numpy"),
    }


if __name__ == "__main__":
    main()
