"""`sg.sparse` on a dozen small models of the transformers library: what they give, and what they generate."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sparsegate as sg
from sparsegate.runtime.engine_forward import EngineForward, skeleton_of
from sparsegate.runtime.modules import swapped
from sparsegate_runtime.kernels import KERNELS

pytestmark = [
    pytest.mark.skipif(KERNELS is None, reason="kernels not built"),
    pytest.mark.filterwarnings("ignore"),
]
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODER = {"decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 64}
SPEECH = {"encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64, **DECODER}
FRAMES = {"num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 20}
POSITIONS = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}
PATCHES = {"image_size": 32, "patch_size": 8}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "BertModel": ("BertConfig", {"vocab_size": 99, **SIZES}),
    "DistilBertForMaskedLM": (
        "DistilBertConfig",
        {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    ),
    "RobertaForSequenceClassification": ("RobertaConfig", {"vocab_size": 99, **SIZES}),
    "GPT2LMHeadModel": (
        "GPT2Config",
        {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, **ENDS},
    ),
    "LlamaForCausalLM": (
        "LlamaConfig",
        {"vocab_size": 99, "num_key_value_heads": 2, **SIZES, **ENDS},
    ),
    "T5ForConditionalGeneration": (
        "T5Config",
        {
            "vocab_size": 99,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": 0,
        },
    ),
    "ViTForImageClassification": ("ViTConfig", {**SIZES, **PATCHES}),
    "DeiTForImageClassification": ("DeiTConfig", {**SIZES, **PATCHES}),
    "WhisperForConditionalGeneration": (
        "WhisperConfig",
        {"vocab_size": 99, "d_model": 32, "decoder_start_token_id": 1, **SPEECH, **FRAMES, **ENDS},
    ),
    "Wav2Vec2ForCTC": (
        "Wav2Vec2Config",
        {
            "vocab_size": 99,
            "conv_dim": (16, 16),
            "conv_stride": (4, 2),
            "conv_kernel": (8, 4),
            **SIZES,
            **POSITIONS,
        },
    ),
    "ConvNextForImageClassification": (
        "ConvNextConfig",
        {"depths": [1, 1, 2, 1], "hidden_sizes": [8, 16, 24, 32]},
    ),
    "MobileNetV2ForImageClassification": (
        "MobileNetV2Config",
        {"depth_multiplier": 0.35, "image_size": 32},
    ),
}
"""Model -> its configuration and the settings that make it small."""
FAST = ("BertModel", "GPT2LMHeadModel")


def some(*names: str) -> list[Any]:
    """The models as parameters of a test; only two run by default."""
    return [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in names or MODELS
    ]


def made(name: str) -> nn.Module:
    """The model with 90 % of each of its matrices at zero, and values that do not fade on the way."""
    transformers = pytest.importorskip("transformers")
    config, settings = MODELS[name]
    model = getattr(transformers, name)(getattr(transformers, config)(**settings))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            kept = torch.rand_like(parameter) >= 0.9
            parameter.data.normal_().mul_(kept * (10 / parameter[0].numel()) ** 0.5)
    return model.eval().requires_grad_(False)


def inputs(model: nn.Module, batch: int, length: int = 9) -> dict[str, Tensor]:
    """A batch of what the model takes."""
    tokens = torch.randint(3, 99, (batch, length))
    if model.main_input_name == "pixel_values":
        return {"pixel_values": torch.randn(batch, 3, 32, 32)}
    if model.main_input_name == "input_values":
        return {"input_values": torch.randn(batch, 40 * length)}
    if model.main_input_name == "input_features":
        return {"input_features": torch.randn(batch, 16, 40), "decoder_input_ids": tokens}
    if model.config.is_encoder_decoder:
        return {"input_ids": tokens, "decoder_input_ids": tokens[:, :5]}
    return {"input_ids": tokens}


def tensors(given: Any) -> list[Tensor]:
    """The tensors of a model's output, those of a cache too."""
    leaves = torch.utils._pytree.tree_leaves(dict(given))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


@torch.no_grad()
def assert_same(fast: nn.Module, model: nn.Module, **given: Any) -> None:
    """Every output equal to 1e-4 of its largest value."""
    got, wanted = fast(**given), model(**given)
    assert type(got) is type(wanted)
    assert got.keys() == wanted.keys()
    for one, other in zip(tensors(got), tensors(wanted), strict=True):
        assert one.shape == other.shape
        assert float((one - other).abs().max()) <= 1e-4 * float(other.abs().max())


def prompt(model: nn.Module, batch: int) -> dict[str, Tensor]:
    """What a model begins to generate from; some tokens of a text are padding."""
    given = {name: x for name, x in inputs(model, batch).items() if "decoder" not in name}
    if "input_ids" in given:
        given["attention_mask"] = torch.ones_like(given["input_ids"])
        given["attention_mask"][0, :3] = 0
    return given


def assert_generates_the_same(fast: nn.Module, model: nn.Module, batch: int) -> None:
    given = prompt(model, batch)
    for settings in ({"do_sample": False}, {"num_beams": 2}):
        every = {"max_new_tokens": 6, "pad_token_id": 0, **settings}
        assert torch.equal(fast.generate(**given, **every), model.generate(**given, **every))


@pytest.mark.parametrize("name", some())
def test_a_model_gives_and_generates_what_it_did(name: str) -> None:
    model = made(name)
    fast = sg.sparse(model, inputs(model, 2))
    for batch in (2, 1, 3, 17):
        assert_same(fast, model, **inputs(model, batch))
    if model.can_generate():
        assert_generates_the_same(fast, model, 2)


@pytest.mark.parametrize("name", some())
def test_a_model_of_which_every_layer_is_sparse_gives_and_generates_what_it_did(name: str) -> None:
    model = made(name)
    fast, report = swapped(model, (), inputs(model, 2), force=True)
    left = {change.kind for change in report if change.kernel != "sparse"}
    assert all("Embedding" in kind for kind in left)
    assert_same(fast, model, **inputs(model, 3))
    if model.can_generate():
        assert_generates_the_same(fast, model, 3)


@pytest.mark.parametrize("name", some("BertModel", "LlamaForCausalLM", "Wav2Vec2ForCTC"))
def test_other_lengths_masks_and_outputs_than_those_of_the_example(name: str) -> None:
    model = made(name)
    fast = sg.sparse(model, inputs(model, 2))
    for length in (7, 31):
        given = inputs(model, 2, length)
        mask = torch.ones_like(next(iter(given.values())))
        mask[0, length // 2 :] = 0
        assert_same(fast, model, **given, attention_mask=mask.long(), output_hidden_states=True)


@pytest.mark.parametrize("name", some("GPT2LMHeadModel", "LlamaForCausalLM"))
def test_tokens_one_by_one_with_a_cache_give_what_all_at_once_give(name: str) -> None:
    model = made(name)
    given = inputs(model, 2)["input_ids"]
    fast, cache = sg.sparse(model, {"input_ids": given}), None
    steps: list[Tensor] = []
    with torch.no_grad():
        for token in given.split(1, 1):
            found = fast(input_ids=token, past_key_values=cache, use_cache=True)
            cache, steps = found.past_key_values, [*steps, found.logits]
        wanted = model(input_ids=given).logits
    assert float((torch.cat(steps, 1) - wanted).abs().max()) <= 1e-4 * float(wanted.abs().max())


@pytest.mark.parametrize(
    "name",
    [
        "T5ForConditionalGeneration",
        pytest.param("WhisperForConditionalGeneration", marks=pytest.mark.slow),
    ],
)
def test_the_engine_runs_models_with_an_encoder_and_a_decoder(name: str) -> None:
    model = made(name)
    planned = EngineForward(model, skeleton_of(model)).plan((), inputs(model, 2))
    assert not planned.plan.left
    given = inputs(model, 2)
    got, wanted = planned([given[one] for one in given]), model(**given)
    assert type(got["past_key_values"]) is type(wanted["past_key_values"])
    for one, other in zip(tensors(got), tensors(wanted), strict=True):
        assert float((one - other).abs().max()) <= 1e-4 * float(other.abs().max())


@pytest.mark.parametrize("name", some("GPT2LMHeadModel"))
@pytest.mark.parametrize("change", ["state", "hook"])
def test_a_model_keeps_its_state_dict_and_its_hooks(name: str, change: str) -> None:
    model = made(name)
    seen: list[Callable[..., Any]] = []
    if change == "hook":
        model.transformer.h[0].attn.c_proj.register_forward_hook(lambda *_: seen.append(print))
    fast, _ = swapped(model, (), inputs(model, 2), force=True)
    if change == "hook":
        seen.clear()
        assert_same(fast, model, **inputs(model, 2))
        assert len(seen) == 2
    else:
        state, wanted = fast.state_dict(), model.state_dict()
        assert state.keys() == wanted.keys()
        assert all(torch.equal(state[key], wanted[key]) for key in wanted)
