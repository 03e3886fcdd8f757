"""Sparse training with the Trainer of transformers, and `from_pretrained` for what it saves."""

try:
    import transformers as _transformers  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sparsegate.integrations.transformers needs transformers 5 and accelerate; "
        'install them: pip install "sparsegate[transformers]"'
    ) from error

from .callback import GateCallback
from .pretrained import gate_pretrained
from .quantizer import SparseFileConfig, SparseFileQuantizer
from .saved import save_pretrained
from .trainer import SparseTrainer, SparseTraining

__all__ = [
    "GateCallback",
    "SparseFileConfig",
    "SparseFileQuantizer",
    "SparseTrainer",
    "SparseTraining",
    "gate_pretrained",
    "save_pretrained",
]
