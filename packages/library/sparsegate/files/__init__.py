"""Files that are truly smaller, accounted for to the bit."""

from .container import encode_safetensors
from .cost import Cost, position_entropy
from .entry import FORMATS, Entry
from .format import Format
from .network import Packed, compress, load
from .quantise import quantise_
from .sg.head import matching_model
from .sg.write import encode_sg
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
    "matching_model",
    "position_entropy",
    "quantise_",
    "shared_values",
    "tune_",
]
