"""Files that are truly smaller, accounted for to the bit."""

from .chain import Example, find_chains, trace, unchecked
from .container import encode_safetensors
from .copied import copied
from .cost import Cost, position_entropy
from .deadpaths import Removed, remove_dead_paths
from .entry import FORMATS, Entry
from .format import Format
from .network import Packed, compress, load
from .order import order_units_
from .quantise import quantise_
from .readers import linear_readers
from .sg_head import matching_model
from .sg_write import encode_sg
from .shrink import shrink
from .step import is_hooked, module_of, operation, reads_shape
from .tune import shared_values, tune_

__all__ = [
    "FORMATS",
    "Cost",
    "Entry",
    "Example",
    "Format",
    "Packed",
    "Removed",
    "compress",
    "copied",
    "encode_safetensors",
    "encode_sg",
    "find_chains",
    "is_hooked",
    "linear_readers",
    "load",
    "matching_model",
    "module_of",
    "operation",
    "order_units_",
    "position_entropy",
    "quantise_",
    "reads_shape",
    "remove_dead_paths",
    "shared_values",
    "shrink",
    "trace",
    "tune_",
    "unchecked",
]
