"""Builds the C kernels where there is a compiler; without one the package installs all the same."""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("src/sparsegate/kernels/csrc")
SOURCES, HEADERS = (sorted(str(path) for path in FOLDER.glob(ending)) for ending in ("*.c", "*.h"))
FLAGS = ["-std=c11", "-O3", "-ffp-contract=fast", "-Wno-psabi", "-fvisibility=hidden"]
OPENMP = ["-fopenmp"]


class BuildKernels(build_ext):
    """Builds with OpenMP, or without where the compiler has none; the library is no Python module."""

    def build_extension(self, ext: Extension) -> None:
        """One go with OpenMP, a second without."""
        ext.extra_compile_args, ext.extra_link_args = FLAGS + OPENMP, OPENMP
        try:
            super().build_extension(ext)
        except Exception:
            ext.extra_compile_args, ext.extra_link_args = FLAGS, []
            super().build_extension(ext)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Nothing beyond what the sources mark."""
        return list(ext.export_symbols)


library = Extension("sparsegate.kernels._c", SOURCES, depends=HEADERS, optional=True)
setup(ext_modules=[library], cmdclass={"build_ext": BuildKernels})
