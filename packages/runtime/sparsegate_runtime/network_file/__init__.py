"""Network files: a whole network with its weights, which runs without PyTorch."""

from .container import decode, encode, write
from .fit import DiffersError
from .network import Network, TensorInfo
from .sketch import OperationRecord, Sketch, Symbol
from .sketching import Capture, sketch_of
from .table import table

__all__ = [
    "Capture",
    "DiffersError",
    "Network",
    "OperationRecord",
    "Sketch",
    "Symbol",
    "TensorInfo",
    "decode",
    "encode",
    "sketch_of",
    "table",
    "write",
]
