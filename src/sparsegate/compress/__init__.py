"""Files that are truly smaller, accounted for to the bit."""

from .cost import Cost, position_entropy
from .deadpaths import Removed, remove_dead_paths
from .entry import FORMATS, Entry
from .format import Format
from .network import Packed, compress, load
from .quantise import quantise_
from .readers import linear_readers
from .sg_write import encode_sg
from .shrink import shrink
from .tune import shared_values, tune_

__all__ = [
    "FORMATS",
    "Cost",
    "Entry",
    "Format",
    "Packed",
    "Removed",
    "compress",
    "encode_sg",
    "linear_readers",
    "load",
    "position_entropy",
    "quantise_",
    "remove_dead_paths",
    "shared_values",
    "shrink",
    "tune_",
]
