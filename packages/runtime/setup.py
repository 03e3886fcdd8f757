"""Builds the C kernels. Without a compiler, the package installs without them."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("sparsegate_runtime/kernels/csrc")
DIRECT = Path("sparsegate_runtime/kernels/cpython")  # needs Python's headers
SOURCES, HEADERS = (sorted(str(path) for path in FOLDER.glob(ending)) for ending in ("*.c", "*.h"))
FLAGS = ["-std=c11", "-O3", "-ffp-contract=fast", "-Wno-psabi", "-fvisibility=hidden"]
OPENMP = ["-fopenmp"]
STRIPPED = ["-s"] if sys.platform == "linux" else []  # symbols would double the wheel


class BuildKernels(build_ext):
    """Builds the kernels, which are a plain shared library, with OpenMP if the compiler has it."""

    def build_extension(self, ext: Extension) -> None:
        """Tries with OpenMP first, then without."""
        if ext is direct:
            ext.extra_compile_args = FLAGS
            return super().build_extension(ext)
        ext.extra_compile_args, ext.extra_link_args = FLAGS + OPENMP, OPENMP + STRIPPED
        try:
            super().build_extension(ext)
        except Exception:
            ext.extra_compile_args, ext.extra_link_args = FLAGS, STRIPPED
            super().build_extension(ext)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Exports only what the sources mark, and the init function of the Python module."""
        return super().get_export_symbols(ext) if ext is direct else list(ext.export_symbols)


library = Extension("sparsegate_runtime.kernels._c", SOURCES, depends=HEADERS, optional=True)
direct = Extension(
    "sparsegate_runtime.kernels._direct",
    [str(DIRECT / "direct.c")],
    depends=[str(DIRECT / "exchange.h")],
    optional=True,
)
setup(ext_modules=[library, direct], cmdclass={"build_ext": BuildKernels})
