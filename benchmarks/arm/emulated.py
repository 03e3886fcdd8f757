"""Compiles the engine for 64-bit ARM by PyPI's ziglang, and runs program images in qemu's user mode."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime import kernels
from sparsegate_runtime.engine import Image

HERE = Path(__file__).parent
CSRC = Path(kernels.__file__).parent / "csrc"
SOURCES = ("image.c", "image_check.c", "engine.c", "processor.c", "engine_plain.c", "chain_plain.c")
FLAGS = ("-static", "-std=c11", "-O3", "-ffp-contract=fast", "-Wno-psabi")
DTYPES = {"float32": np.float32, "int64": np.int64, "bool": np.bool_}


def missing() -> str:
    """What must be installed first, in words; empty if nothing is missing."""
    if shutil.which("qemu-aarch64") is None:
        return "there is no qemu-aarch64; apt-get install qemu-user"
    if importlib.util.find_spec("ziglang") is None:
        return "there is no compiler for ARM; pip install ziglang"
    return ""


def build(folder: Path) -> Path:
    """The program that runs an image, for 64-bit ARM."""
    return _compiled(folder / "run_image", HERE / "run_image.c", *(CSRC / one for one in SOURCES))


def build_dense(folder: Path) -> Path:
    """The dense matrix product with NEON."""
    return _compiled(folder / "dense", HERE / "dense.c")


def _compiled(program: Path, *sources: Path) -> Path:
    target = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl"]
    subprocess.run([*target, *FLAGS, f"-I{CSRC}", *sources, "-o", program], check=True)
    return program


def build_counter(folder: Path) -> Path:
    """The plugin of qemu that counts instructions, for this machine."""
    plugin = folder / "count.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", HERE / "count.c", "-o", plugin], check=True)
    return plugin


def run(
    program: Path,
    image: bytes,
    inputs: list[NDArray[Any]],
    folder: Path,
    *,
    runs: int = 1,
    counter: Path | None = None,
) -> tuple[list[NDArray[Any]], int]:
    """The outputs of an image on an emulated processor, and the instructions if a counter is given."""
    (folder / "net.sgi").write_bytes(image)
    signatures = Image(image).outputs
    given = [folder / f"in{index}" for index in range(len(inputs))]
    made = [folder / f"out{index}" for index in range(len(signatures))]
    for path, array in zip(given, inputs, strict=True):
        path.write_bytes(np.ascontiguousarray(array).tobytes())
    plugin = [] if counter is None else ["-plugin", str(counter)]
    command = ["qemu-aarch64", *plugin, program, folder / "net.sgi", str(runs), *given, *made]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    outputs = [
        np.fromfile(path, DTYPES[one.kind]).reshape(one.shape)
        for path, one in zip(made, signatures, strict=True)
    ]
    return outputs, _counted(done.stderr)


def _counted(words: str) -> int:
    found = re.search(r"instructions: (\d+)", words)
    return int(found[1]) if found else 0


def dense_instructions(program: Path, rows: int, inner: int, columns: int, counter: Path) -> int:
    """Instructions of a dense matrix product."""
    counts = []
    for runs in (1, 2):
        sizes = map(str, (program, rows, inner, columns, runs))
        command = ["qemu-aarch64", "-plugin", str(counter), *sizes]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        counts.append(_counted(done.stderr))
    return counts[1] - counts[0]


def instructions(
    program: Path, image: bytes, inputs: list[NDArray[Any]], folder: Path, counter: Path
) -> int:
    """Instructions of one run, without loading."""
    counts = [run(program, image, inputs, folder, runs=runs, counter=counter)[1] for runs in (1, 2)]
    return counts[1] - counts[0]
