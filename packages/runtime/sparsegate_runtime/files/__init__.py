"""Reads and writes the files of sparse networks, with numpy alone."""

from .cost import Cost, position_entropy
from .entry import FORMATS, Entry, num_negative_zeros
from .format import Description, Elements, Format
from .limit import check_limit, default_limit
from .read import SG_ENDING, Tensors, read, read_entries
from .sg.bytestream import ByteReader, varint
from .sg.read import decode_sg
from .sg.shapes import Shapes
from .sg.version2 import register_architectures
from .sg.write import encode_sg, write_sg
from .sparse_safetensors import ENDING, encode_safetensors, header_cost, write_safetensors
from .types import TYPES, Array, bits_type, num_bytes, printable

__all__ = [
    "ENDING",
    "FORMATS",
    "SG_ENDING",
    "TYPES",
    "Array",
    "ByteReader",
    "Cost",
    "Description",
    "Elements",
    "Entry",
    "Format",
    "Shapes",
    "Tensors",
    "bits_type",
    "check_limit",
    "decode_sg",
    "default_limit",
    "encode_safetensors",
    "encode_sg",
    "header_cost",
    "num_bytes",
    "num_negative_zeros",
    "position_entropy",
    "printable",
    "read",
    "read_entries",
    "register_architectures",
    "varint",
    "write_safetensors",
    "write_sg",
]
