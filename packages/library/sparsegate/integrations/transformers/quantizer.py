"""Lets `from_pretrained` read sparse files, and checkpoints of models with gates."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from .saved import METHOD, finished_weights


@register_quantization_config(METHOD)
class SparseFileConfig(QuantizationConfigMixin):  # type: ignore[misc]
    """What a saved `config.json` says about weights that are not stored as ordinary tensors.

    Args:
        holds: `sparse file` if the weights are in `model.sparse.safetensors`, `gates` if they are
            a training checkpoint with gates.
        **others: Entries of later versions, which are ignored.
    """

    dequantize = True  # what is loaded is an ordinary model, which knows nothing of its file

    def __init__(self, holds: Literal["sparse file", "gates"] = "sparse file", **_: Any) -> None:
        self.quant_method = METHOD
        self.holds = holds


@register_quantizer(METHOD)
class SparseFileQuantizer(HfQuantizer):  # type: ignore[misc]
    """Decodes the weights into a temporary file, from which transformers then loads them."""

    _folder: TemporaryDirectory[str] | None = None

    def _process_model_before_weight_loading(
        self, model: Any, checkpoint_files: list[str] | None = None, **_: Any
    ) -> Any:
        if not checkpoint_files:
            raise ValueError(
                "the configuration says that the weights are in a file of sparsegate, and there "
                "is none; load the model by from_pretrained from the folder that has it"
            )
        holds = self.quantization_config.holds
        with torch.device("cpu"):  # the model is being built on the meta device
            tensors = finished_weights([Path(path) for path in checkpoint_files], holds=holds)
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        path = str(Path(self._folder.name) / "model.safetensors")
        save_file(tensors, path, metadata={"format": "pt"})
        checkpoint_files[:] = [path]
        return model

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
        if hasattr(model.config, "transformers_weights"):
            del model.config.transformers_weights
        if self._folder is not None:
            self._folder.cleanup()
        return model

    def is_serializable(self) -> bool:
        """Whether a loaded model can be saved: it is an ordinary one."""
        return True

    @property
    def is_trainable(self) -> bool:
        """Whether a loaded model can be trained: it is an ordinary one."""
        return True
