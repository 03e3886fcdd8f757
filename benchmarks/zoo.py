"""Networks of the kinds that people deploy, by name, with inputs and a fraction of zeros.

Weights are random; what counts is shapes and speed. Those of the transformers library need it to be
installed. A face detector with its own zeros takes part where the folder `../shared/zoo` holds its
weights.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import zoo_images as images
import zoo_sequences as sequences
from torch import Tensor, nn

OPTIONAL = Path(__file__).parents[2] / "shared" / "zoo"
"""Where weights of a real sparse network may be."""
BERT = {"num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
VIT = {"num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536}
GPT = {"n_embd": 384, "n_layer": 6, "n_head": 6, "vocab_size": 5000}
LLAMA = {
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 1024,
    "vocab_size": 5000,
}
T5 = {"d_model": 384, "d_kv": 64, "d_ff": 1024, "num_layers": 4, "num_heads": 6, "vocab_size": 5000}


@dataclass(frozen=True)
class Case:
    """A network, its inputs for a batch size, and which fraction of its weights becomes zero."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], Any]
    zeros: float = 0.9

    def model(self) -> nn.Module:
        """The network with its zeros, for inference, from the current random state."""
        return pruned(self.make(), self.zeros)


def pruned(model: nn.Module, zeros: float) -> nn.Module:
    """Sets the smallest weights of each matrix and kernel to zero.

    Embeddings and depthwise kernels stay whole.
    """
    whole = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        or (isinstance(module, nn.Conv1d | nn.Conv2d) and module.weight.shape[1] == 1)
    }
    for parameter in model.parameters():
        if zeros and parameter.ndim > 1 and id(parameter) not in whole:
            size = parameter.detach().abs()
            edge = size.flatten().kthvalue(max(1, int(zeros * size.numel()))).values
            parameter.data[size <= edge] = 0
    return model.eval().requires_grad_(False)


def _images(size: int, name: str = "") -> Callable[[int], Any]:
    def given(batch: int) -> Any:
        made = torch.randn(batch, 3, size, size)
        return {name: made} if name else made

    return given


def _words(length: int, most: int, *names: str) -> Callable[[int], Any]:
    def made(batch: int) -> Any:
        words = torch.randint(1, most, (batch, length))
        return dict.fromkeys(names, words) if names else words

    return made


def _random(*shape: int) -> Callable[[int], Tensor]:
    return lambda batch: torch.randn(batch, *shape)


def _of_transformers(model: str, config: str, **settings: Any) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**settings))  # type: ignore[no-any-return]

    return made


def _face_detector() -> nn.Module:
    sys.path.insert(0, str(OPTIONAL))
    from face_detector import load  # type: ignore[import-not-found]

    return load(OPTIONAL / "face_detector.safetensors")  # type: ignore[no-any-return]


_bert = _of_transformers("BertModel", "BertConfig", hidden_size=384, **BERT)
_vit = _of_transformers("ViTForImageClassification", "ViTConfig", hidden_size=384, **VIT)
_gpt = _of_transformers("GPT2LMHeadModel", "GPT2Config", **GPT, bos_token_id=0, eos_token_id=0)
_llama = _of_transformers("LlamaForCausalLM", "LlamaConfig", hidden_size=384, **LLAMA)
_t5 = _of_transformers("T5ForConditionalGeneration", "T5Config", **T5)
_convnext = _of_transformers(
    "ConvNextForImageClassification",
    "ConvNextConfig",
    depths=[2, 2, 4, 2],
    hidden_sizes=[64, 128, 256, 512],
)

ZOO: dict[str, Case] = {
    "resnet-18": Case(partial(images.residual, deep=False), _images(224)),
    "resnet-50": Case(partial(images.residual, deep=True), _images(224)),
    "densenet": Case(images.dense_net, _images(160)),
    "mobilenet-v2": Case(images.mobile_v2, _images(224), 0.85),
    "mobilenet-v3": Case(images.mobile_v3, _images(224), 0.85),
    "efficientnet": Case(images.efficient, _images(224), 0.85),
    "unet": Case(images.UNet, _images(128)),
    "unet-upsampled": Case(partial(images.UNet, 24, transposed=False), _images(128)),
    "convnext": Case(_convnext, _images(224, "pixel_values")),
    "keywords": Case(sequences.keywords, _random(40, 100), 0.85),
    "lstm": Case(partial(sequences.Tagger, nn.LSTM, both=False), _words(40, 2000)),
    "gru": Case(partial(sequences.Tagger, nn.GRU, both=True), _words(40, 2000)),
    "encoder": Case(sequences.encoder, _random(96, 320)),
    "conformer": Case(sequences.conformer, _random(80, 200)),
    "listener": Case(sequences.Listener, _random(8000)),
    "bert": Case(_bert, _words(128, 30000, "input_ids")),
    "vit": Case(_vit, _images(224, "pixel_values")),
    "gpt2": Case(_gpt, _words(128, 5000, "input_ids")),
    "llama": Case(_llama, _words(128, 5000, "input_ids")),
    "t5": Case(_t5, _words(64, 5000, "input_ids", "decoder_input_ids")),
}
"""Every network by name."""
if (OPTIONAL / "face_detector.safetensors").exists():
    ZOO["face-detector"] = Case(_face_detector, _images(192), 0.0)


def network(name: str) -> tuple[nn.Module, Any]:
    """A network and one of its inputs, always the same.

    `sparsegate bench zoo:lstm` times one; any name of the zoo is a function of this module.
    """
    torch.manual_seed(0)
    return ZOO[name].model(), ZOO[name].inputs(1)


def __getattr__(name: str) -> Callable[[], tuple[nn.Module, Any]]:
    key = name.replace("_", "-")
    if key not in ZOO:
        raise AttributeError(f"the zoo has no network {key}; it has {', '.join(ZOO)}")
    return partial(network, key)


def networks_of(path: Path) -> dict[str, Case]:
    """The networks of a Python file with a dictionary NETWORKS.

    Each entry is how the network is made, its inputs by name for a batch, and the fraction of
    zeros. The only positional input has the name "".
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {
        name: Case(make, partial(_positional, inputs), zeros)
        for name, (make, inputs, zeros) in module.NETWORKS.items()
    }


def _positional(inputs: Callable[[int], dict[str, Tensor]], batch: int) -> Any:
    made = inputs(batch)
    return made.get("", made)
