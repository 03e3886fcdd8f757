"""sparsegate trains neural networks that are sparse: a learned gate on every weight."""

from sparsegate.distil import Distil
from sparsegate.embedded import to_c
from sparsegate.export import to_onnx
from sparsegate.files import Packed, compress, load, quantise_
from sparsegate.gates import (
    Census,
    ClosedLayer,
    Constant,
    Gate,
    LargestWeights,
    Nonzero,
    NothingRemoved,
    Sample,
    Select,
    Threshold,
    UnfinishedTarget,
    average,
    finish,
    freeze_mask,
    gate,
    gates,
    weights,
)
from sparsegate.graph import remove_dead_paths, shrink
from sparsegate.integrations import from_hub, push_to_hub
from sparsegate.moving_average import MovingAverage
from sparsegate.optimizers import GatedAdamW, GatedSGD, GateSGD
from sparsegate.price import Penalty
from sparsegate.runtime import SavedNetwork, SparseNetwork, save_network, sparse
from sparsegate.schedule import cosine, ramp
from sparsegate.target import Found, Target, UnreachableTarget
from sparsegate_runtime.version import VERSION as __version__

__all__ = [
    "Census",
    "ClosedLayer",
    "Constant",
    "Distil",
    "Found",
    "Gate",
    "GateSGD",
    "GatedAdamW",
    "GatedSGD",
    "LargestWeights",
    "MovingAverage",
    "Nonzero",
    "NothingRemoved",
    "Packed",
    "Penalty",
    "Sample",
    "SavedNetwork",
    "Select",
    "SparseNetwork",
    "Target",
    "Threshold",
    "UnfinishedTarget",
    "UnreachableTarget",
    "__version__",
    "average",
    "compress",
    "cosine",
    "finish",
    "freeze_mask",
    "from_hub",
    "gate",
    "gates",
    "load",
    "push_to_hub",
    "quantise_",
    "ramp",
    "remove_dead_paths",
    "save_network",
    "shrink",
    "sparse",
    "to_c",
    "to_onnx",
    "weights",
]
