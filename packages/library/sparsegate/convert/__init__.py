"""Converts networks of other programs to network files, without PyTorch's capture."""

from .onnx_network import convert_onnx
from .tflite_network import convert_tflite
from .written import Converted

__all__ = ["Converted", "convert_onnx", "convert_tflite"]
