"""Damaged program images, through the C library under sanitizers and through JavaScript. Writes a record.

The images are changed in their headers, structures and data, and signed again. A sanitizer that finds an access outside
of the image, the arena or a tensor ends the run, and results/mutated-images.json says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torture.network_files import Mixed, Words

import sparsegate as sg
from sparsegate.bench import machine, versions
from sparsegate_runtime import Network
from sparsegate_runtime.atomic import write_atomically

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "mutated-images.json"
FOLDER = ROOT / "benchmarks" / "images"
C = ROOT / "packages" / "runtime" / "c"
SANITIZERS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
ENVIRONMENT = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=256:detect_leaks=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


class Images(nn.Module):
    """Convolutions of every kind, norms and a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depth = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 2, 2, groups=8)
        self.norm, self.last = nn.GroupNorm(2, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logarithms of probabilities."""
        x = F.hardswish(self.depth(F.relu(self.stem(x))))
        x = F.avg_pool2d(self.norm(x), 2, 2)
        return self.last(x.mean((2, 3))).log_softmax(-1)


class Masked(nn.Module):
    """Attention with a mask of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Values of every token."""
        q = self.layer(x).unflatten(2, (2, 8)).transpose(1, 2)
        mask = seen.bool()[:, None, None, :]
        found = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        return self.out(found.transpose(1, 2).flatten(2)) * seen[:, :, None]


def images(folder: Path) -> Iterator[Path]:
    """Images of small networks, for every instruction set."""
    torch.manual_seed(0)
    cases: list[tuple[nn.Module, Any]] = [
        (Mixed(), torch.randn(1, 3, 16, 16)),
        (Words(), torch.randint(0, 50, (1, 10))),
        (Images(), torch.randn(1, 3, 12, 12)),
        (Masked(), (torch.randn(1, 6, 16), torch.ones(1, 6, dtype=torch.int64))),
    ]
    for number, (model, example) in enumerate(cases):
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.data *= torch.rand_like(parameter) < 0.3
        sg.save_network(model.eval(), example, folder / "net.sgn")
        for name in ("plain", "avx2", "avx512"):
            path = folder / f"{number}-{name}.sgi"
            path.write_bytes(Network.load(folder / "net.sgn").image(name, batch=1))
            yield path


def built(folder: Path, compiler: str) -> Path:
    """The program that damages images, with sanitizers."""
    flags = [
        "OPENMP=",
        f"CC={compiler}",
        f"CFLAGS={SANITIZERS}",
        "LDFLAGS=-fsanitize=address,undefined",
    ]
    library = folder / "libsparsegate.a"
    subprocess.run(["make", "-s", "-C", C, f"BUILD={folder}", *flags, library], check=True)
    source = FOLDER / "mutate.c"
    words = [
        compiler,
        "-std=gnu99",
        "-Wall",
        "-Wextra",
        "-Werror",
        *shlex.split(SANITIZERS),
        f"-I{C}",
    ]
    subprocess.run([*words, source, library, "-lm", "-o", folder / "mutate"], check=True)
    return folder / "mutate"


def tried(words: list[Any]) -> dict[str, Any]:
    """What came of the damaged images; `fault` if the program was stopped."""
    environment = os.environ | ENVIRONMENT
    ran = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
    if ran.returncode:
        said = [line for line in ran.stderr.splitlines() if "failed to allocate" not in line]
        return {"tried": 0, "outcomes": {}, "fault": said[:12]}
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each door")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiler", default="gcc")
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, paths = built(folder, options.compiler), list(images(folder))
        last = [str(options.seed), str(options.seconds), *paths]
        doors = {"c": tried([program, *last])}
        if node := shutil.which("node"):
            doors["javascript"] = tried([node, FOLDER / "mutate.mjs", *last])
    record = {
        "title": "Damaged program images through the C library, under sanitizers, and through JavaScript",
        "command": shlex.join(["python", *sys.argv]),
        "seed": options.seed,
        "sanitizers": SANITIZERS,
        "machine": machine(),
        "versions": versions(),
        "doors": doors,
    }
    write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())
    print(json.dumps(record, indent=1))
    faults = [word for door in doors.values() for word in door["outcomes"] if "FAULT" in word]
    if faults or any("fault" in door for door in doors.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
