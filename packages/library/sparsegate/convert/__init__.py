"""Converts networks of other programs to network files, without PyTorch's capture."""

from .onnx_network import convert_onnx

__all__ = ["convert_onnx"]
