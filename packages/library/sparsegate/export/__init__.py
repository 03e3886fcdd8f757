"""Writes and compiles networks for programs without PyTorch: as C code, ONNX and web pages."""

from __future__ import annotations

from .build import build, find_compiler
from .c.code import MAX_WEIGHTS, Code, Dtype, generate, identifier
from .c.text import c_float
from .c_files import CFiles
from .exporter import Exporter, ExportResult
from .hardwired import HardWired, hard_wire
from .normalise import UNIT_RANGE, Normalise
from .onnx_export import export_onnx, to_onnx
from .read import check_finite
from .to_c import to_c
from .to_web import for_browser, to_web

__all__ = [
    "MAX_WEIGHTS",
    "UNIT_RANGE",
    "CFiles",
    "Code",
    "Dtype",
    "ExportResult",
    "Exporter",
    "HardWired",
    "Normalise",
    "build",
    "c_float",
    "check_finite",
    "export_onnx",
    "find_compiler",
    "for_browser",
    "generate",
    "hard_wire",
    "identifier",
    "to_c",
    "to_onnx",
    "to_web",
]
