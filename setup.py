"""Makes `pip install .` install the packages of this clone instead of published ones."""

from __future__ import annotations

from pathlib import Path

from setuptools import setup

PACKAGES = Path(__file__).parent.resolve() / "packages"


def local(name: str, folder: str, extras: str = "") -> str:
    """Returns a requirement on a package in a folder of this clone."""
    return f"{name}{extras} @ {(PACKAGES / folder).as_uri()}"


RUNTIME = local("sparsegate-runtime", "runtime")
LIBRARY = local("sparsegate", "library")
EXTRAS = {
    "lab": [local("sparsegate-lab", "lab")],
    "gpu": [local("sparsegate", "library", "[gpu]")],
    "transformers": [local("sparsegate", "library", "[transformers]")],
    "lightning": [local("sparsegate", "library", "[lightning]")],
    "hub": [local("sparsegate", "library", "[hub]")],
    "onnx": [local("sparsegate", "library", "[onnx]")],
    "sweep": [local("sparsegate-lab", "lab", "[sweep]")],
    "engines": [local("sparsegate", "library", "[engines,plot]")],
}
setup(packages=[], install_requires=[RUNTIME, LIBRARY], extras_require=EXTRAS)
