"""Reads state dicts from files of other programs, without executing code from them."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from .onnx_file import read_onnx
from .tflite_file import read_tflite


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors in a .safetensors, .onnx or .tflite file, or in a state dict that torch saved."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.suffix == ".onnx":
        return read_onnx(path)
    if path.suffix == ".tflite":
        return read_tflite(path)
    return _safetensors(path) if path.suffix == ".safetensors" else _pickled(path)


def _safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file, or is damaged: {error}") from error


def _pickled(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that torch did not write
            value = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes can raise anything
        raise ValueError(
            f"{path} is not a state dict that can be loaded safely: expected a file written by "
            "torch.save(model.state_dict(), path), with tensors only"
        ) from error
    value = value.get("state_dict", value) if isinstance(value, dict) else value
    if not isinstance(value, dict) or not all(isinstance(each, Tensor) for each in value.values()):
        raise ValueError(f"{path} holds no state dict of tensors")
    if strange := [name for name in value if not isinstance(name, str)]:
        raise ValueError(
            f"{path} holds no state dict of tensors: {strange[0]!r} is not a name; save what "
            "model.state_dict() returns"
        )
    return value
