"""Writes and compiles networks for programs without PyTorch: as C code, ONNX and web pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sparsegate_runtime.registry import Registry

from .build import build, find_compiler
from .c.code import MAX_WEIGHTS, Code, Dtype, generate
from .exporter import Exporter, ExportResult
from .hardwired import HardWired, hard_wire
from .normalise import Normalise
from .onnx_export import export_onnx, to_onnx
from .to_c import to_c
from .to_web import for_browser, to_web

EXPORTS: Registry[Mapping[Dtype, Exporter]] = Registry(
    "export",
    {
        "c": {"fp32": partial(to_c, dtype="fp32"), "int8": partial(to_c, dtype="int8")},
        "onnx": {"fp32": export_onnx},
        "web": {"fp32": to_web},
    },
)
"""The exporters, by what they write and its data type."""

__all__ = [
    "EXPORTS",
    "MAX_WEIGHTS",
    "Code",
    "Dtype",
    "ExportResult",
    "Exporter",
    "HardWired",
    "Normalise",
    "build",
    "find_compiler",
    "for_browser",
    "generate",
    "hard_wire",
    "to_c",
    "to_onnx",
    "to_web",
]
