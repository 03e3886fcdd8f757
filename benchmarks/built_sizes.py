"""The sizes of the runtime's wheel and of the C library, built here. Writes results/built-sizes.json."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sparsegate.bench import machine, versions
from sparsegate_runtime.atomic import write_atomically

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "built-sizes.json"


def library(folder: Path, flags: str) -> dict[str, Any]:
    """Bytes of the shared library with these flags of the compiler."""
    build = folder / flags.strip("-")
    words = ["make", "-s", "-C", ROOT / "packages" / "runtime" / "c", f"BUILD={build}"]
    subprocess.run([*words, f"CFLAGS={flags}"], check=True)
    raw = (build / "libsparsegate.so").read_bytes()
    return {"flags": flags, "bytes": len(raw), "gzip_bytes": len(gzip.compress(raw, 9))}


def wheel(folder: Path) -> dict[str, Any]:
    """Bytes of the wheel."""
    source = folder / "runtime"
    ignored = shutil.ignore_patterns("build", "*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "packages" / "runtime", source, ignore=ignored)
    words = [sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--no-build-isolation"]
    subprocess.run([*words, "--quiet", "--wheel-dir", folder / "wheel"], check=True)
    (path,) = (folder / "wheel").glob("*.whl")
    return {"name": path.name, "bytes": path.stat().st_size}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record = {
            "title": "Sizes of the runtime's wheel and of the C library",
            "command": shlex.join(["python", *sys.argv]),
            "machine": machine(),
            "versions": versions(),
            "wheel": wheel(folder),
            "c_library": [library(folder, flags) for flags in ("-Os", "-O3")],
        }
    write_atomically(RECORD, (json.dumps(record, indent=1) + "\n").encode())
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
