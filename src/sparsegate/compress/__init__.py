"""Files that are truly smaller, accounted for to the bit."""

from .cost import Cost, position_entropy
from .entry import FORMATS, Entry
from .format import Format
from .network import Packed, compress, load

__all__ = ["FORMATS", "Cost", "Entry", "Format", "Packed", "compress", "load", "position_entropy"]
