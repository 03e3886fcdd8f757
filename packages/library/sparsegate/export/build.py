"""Compiles C code into a shared library, which a cache keeps."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from .c.code import Code

FLAGS = ("-std=c99", "-O3", "-ffp-contract=fast", "-fPIC", "-shared")
NATIVE = ("-march=native",)
SECONDS = 1800


def find_compiler() -> list[str]:
    """The command of a C compiler: $CC, or the first of cc, gcc and clang that exists."""
    named = shlex.split(os.environ.get("CC", ""))
    for command in [named] if named else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    missing = (
        f"CC names {named[0]!r}, which does not exist" if named else "found no cc, gcc or clang"
    )
    raise ValueError(
        f"hard-wired code needs a C compiler, but {missing}; install one, or set CC to its command"
    )


def build(code: Code) -> Path:
    """The shared library of a network, from the cache if it is there."""
    compiler = find_compiler()
    folder = cache_folder()
    key = hashlib.sha256(
        "\0".join([_about(compiler), *FLAGS, _processor(), code.header, code.source]).encode()
    )
    library = folder / f"{code.name}-{key.hexdigest()[:32]}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _compile(compiler, code, library)
    return library


def cache_folder() -> Path:
    """The folder of the cache: in $XDG_CACHE_HOME, or in ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "sparsegate" / "hardwired"


def _compile(compiler: list[str], code: Code, library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        source, built = Path(folder, f"{code.name}.c"), Path(folder, library.name)
        source.write_text(code.source)
        source.with_suffix(".h").write_text(code.header)
        words = [*FLAGS, "-o", str(built), str(source), "-lm"]
        error = _run([*compiler, *NATIVE, *words])
        if error and _run([*compiler, *words]):  # not every compiler knows -march=native
            raise ValueError(f"{shlex.join(compiler)} cannot compile the network: {error}")
        built.replace(library)


def _run(command: list[str]) -> str:
    """The first error of a compiler, in one line; empty if it succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = [
        line for line in done.stderr.splitlines() if "error" in line
    ] or done.stderr.splitlines()
    return "" if done.returncode == 0 else (lines or [f"exit code {done.returncode}"])[0]


def _about(compiler: list[str]) -> str:
    """The compiler and its version."""
    done = subprocess.run(
        [*compiler, "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    return f"{shlex.join(compiler)} {done.stdout}"


def _processor() -> str:
    """Identifies the processor: another one may share the cache, but not run the code."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return " ".join(
        sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    )
