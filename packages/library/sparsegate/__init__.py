"""sparsegate trains neural networks that are sparse: a learned gate on every weight."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparsegate.distil import Distil
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
from sparsegate.moving_average import MovingAverage
from sparsegate.optimizers import GatedAdamW, GatedSGD, GateSGD
from sparsegate.price import Penalty
from sparsegate.schedule import cosine, ramp
from sparsegate.target import Found, Target, UnreachableTarget
from sparsegate_runtime.version import VERSION as __version__

if TYPE_CHECKING:
    from sparsegate.embedded import to_c  # type: ignore[no-redef]
    from sparsegate.export import to_onnx
    from sparsegate.integrations import from_hub, push_to_hub
    from sparsegate.runtime import (  # type: ignore[no-redef]
        SavedNetwork,
        SparseNetwork,
        save_network,
        sparse,
    )

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

ON_DEMAND = {
    "SavedNetwork": "runtime",
    "SparseNetwork": "runtime",
    "from_hub": "integrations",
    "push_to_hub": "integrations",
    "save_network": "runtime",
    "sparse": "runtime",
    "to_c": "embedded",
    "to_onnx": "export",
}
"""Names whose rooms are imported at their first use: training needs none of them."""


def __getattr__(name: str) -> Any:
    """Imports the room of a name on demand, or a room such as `sparsegate.export`."""
    room = ON_DEMAND.get(name, name)
    if room not in ON_DEMAND.values():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = import_module(f"{__name__}.{room}")
    return found if room == name else getattr(found, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
