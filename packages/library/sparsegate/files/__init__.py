"""Stores networks in files that are truly smaller, and accounts for every bit."""

import torch

from sparsegate_runtime import threads
from sparsegate_runtime.files import (
    FORMATS,
    Cost,
    Entry,
    Format,
    encode_safetensors,
    encode_sg,
    position_entropy,
)

from .onnx_file import parsed_onnx, read_onnx
from .packed import Packed, compress, load
from .quantise import quantise_
from .state_file import read_state_dict
from .tensors import pack_tensor, type_name, unpack_tensor
from .tflite_file import parsed_tflite
from .tune import shared_values, tune_

__all__ = [
    "FORMATS",
    "Cost",
    "Entry",
    "Format",
    "Packed",
    "compress",
    "encode_safetensors",
    "encode_sg",
    "load",
    "pack_tensor",
    "parsed_onnx",
    "parsed_tflite",
    "position_entropy",
    "quantise_",
    "read_onnx",
    "read_state_dict",
    "shared_values",
    "tune_",
    "type_name",
    "unpack_tensor",
]

threads.follow(torch.get_num_threads)
