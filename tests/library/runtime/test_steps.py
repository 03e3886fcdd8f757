"""Generating text token by token in the engine, with transformers' caches."""

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sparsegate as sg
from sparsegate.runtime.step_capture import attend_cached
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")
transformers = pytest.importorskip("transformers")
SMALL: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    "max_position_embeddings": 256,
}


def model_of(name: str, **more: Any) -> nn.Module:
    """A small model of the library with half of its weights zero."""
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **more})
    kind = {"GPT2": "GPT2LMHeadModel"}.get(name, f"{name}ForCausalLM")
    model: nn.Module = getattr(transformers, kind)(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data *= 4 * (torch.rand_like(parameter) < 0.5)
    return model


def prompt(batch: int = 1, tokens: int = 5) -> Tensor:
    return torch.randint(3, 99, (batch, tokens), generator=torch.Generator().manual_seed(batch))


@pytest.fixture(scope="module")
def llama() -> tuple[nn.Module, nn.Module]:
    """The ordinary model, whose heads share keys, and the sparse one."""
    model = model_of("Llama", num_key_value_heads=2)
    return model, sg.sparse(model, {"input_ids": prompt()})


def plans(fast: nn.Module) -> dict[Any, Any]:
    found: dict[Any, Any] = fast.__dict__["forward"].steps.plans
    return found


def text(model: nn.Module, ids: Tensor, **settings: Any) -> Tensor:
    given = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, **settings}
    found: Tensor = model.generate(ids, **given)  # type: ignore[operator]
    return found


KINDS: dict[str, dict[str, Any]] = {
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "Mistral": {"num_key_value_heads": 2, "sliding_window": None},
    "Qwen2": {"num_key_value_heads": 2},
    "GPTNeoX": {},
    "Phi": {"num_key_value_heads": 4},
}
"""Classes of the library, with settings that make them small."""


@pytest.mark.parametrize(
    "name", [n if n == "GPT2" else pytest.param(n, marks=pytest.mark.slow) for n in KINDS]
)
def test_tokens_run_in_the_engine_and_the_text_is_the_same(name: str) -> None:
    model = model_of(name, **KINDS[name])
    fast = sg.sparse(model, {"input_ids": prompt()})
    assert torch.equal(text(fast, prompt()), text(model, prompt()))
    (plan,) = plans(fast).values()
    assert plan is not None


def test_a_text_may_be_longer_than_the_first_room_of_the_cache(llama: Any) -> None:
    model, fast = llama
    long = {"max_new_tokens": 150}
    assert torch.equal(text(fast, prompt(), **long), text(model, prompt(), **long))


@pytest.mark.parametrize(
    "settings", [{"num_beams": 3}, {"num_return_sequences": 2, "num_beams": 2}]
)
def test_beams_reorder_the_cache(llama: Any, settings: Any) -> None:
    model, fast = llama
    assert torch.equal(text(fast, prompt(), **settings), text(model, prompt(), **settings))


def test_texts_of_different_length_run_by_the_models_own_code(llama: Any) -> None:
    model, fast = llama
    ids = prompt(2)
    mask = torch.ones_like(ids)
    ids[0, :2], mask[0, :2] = 0, 0
    before = dict(plans(fast))
    padded = {"attention_mask": mask}
    assert torch.equal(text(fast, ids, **padded), text(model, ids, **padded))
    assert plans(fast) == before


def step(model: nn.Module, ids: Tensor, cache: Any, **more: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=ids, past_key_values=cache, use_cache=True, **more)


def filled(model: nn.Module, ids: Tensor) -> Any:
    cache = transformers.DynamicCache()
    step(model, ids, cache)
    return cache


def test_the_cache_holds_what_it_would(llama: Any) -> None:
    caches = [filled(one, prompt()) for one in llama]
    for token in (7, 8, 9):
        outs = [
            step(one, torch.tensor([[token]]), cache)
            for one, cache in zip(llama, caches, strict=True)
        ]
        assert type(outs[0]) is type(outs[1])
        assert outs[1].past_key_values is caches[1]
        torch.testing.assert_close(outs[0].logits, outs[1].logits, rtol=0, atol=1e-3)
    assert caches[1].get_seq_length() == 8
    for mine, other in zip(caches[1].layers, caches[0].layers, strict=True):
        torch.testing.assert_close(mine.keys, other.keys, rtol=0, atol=1e-3)
        torch.testing.assert_close(mine.values, other.values, rtol=0, atol=1e-3)


def cut(cache: Any) -> Any:
    cache.crop(-2)
    return cache


def changed(cache: Any) -> Any:
    for layer in cache.layers:
        layer.keys = layer.keys * 2
    return cache


def written(cache: Any) -> Any:
    for layer in cache.layers:
        layer.values.mul_(2)
    return cache


@pytest.mark.parametrize("edit", [cut, changed, written, copy.deepcopy])
def test_a_cache_may_be_changed_between_two_tokens(llama: Any, edit: Any) -> None:
    outs = []
    for one in llama:
        cache = filled(one, prompt())
        step(one, torch.tensor([[7]]), cache)
        outs.append(step(one, torch.tensor([[8]]), edit(cache)).logits)
    torch.testing.assert_close(*outs, rtol=0, atol=1e-3)


def test_two_texts_may_take_turns(llama: Any) -> None:
    ids = [prompt(tokens=4), prompt(tokens=6)]
    caches = {one: [filled(one, each) for each in ids] for one in llama}
    for token in (5, 6, 7):
        for index in (0, 1):
            outs = [step(one, torch.tensor([[token]]), caches[one][index]).logits for one in llama]
            torch.testing.assert_close(*outs, rtol=0, atol=1e-3)


def test_a_cache_that_wants_gradients_gets_those_of_the_ordinary_model(llama: Any) -> None:
    grads = []
    for one in llama:
        cache = filled(one, prompt())
        step(one, torch.tensor([[5]]), cache)
        for layer in cache.layers:
            layer.keys = layer.keys.clone().requires_grad_()
        keys = cache.layers[0].keys
        with torch.enable_grad():
            out = one(input_ids=torch.tensor([[6]]), past_key_values=cache, use_cache=True)
            out.logits.square().sum().backward()
        grads.append(keys.grad)
    assert grads[1].abs().max() > 0
    torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("more", [{"output_hidden_states": True}, {"return_dict": False}])
def test_what_the_engine_cannot_return_comes_from_the_models_own_code(
    llama: Any, more: Any
) -> None:
    models = copy.deepcopy(llama)  # asking for hidden states adds hooks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, other = (
            step(one, torch.tensor([[4]]), filled(one, prompt()), **more) for one in models
        )
    torch.testing.assert_close(mine[0], other[0], rtol=0, atol=1e-3)


@pytest.mark.slow
def test_a_sliding_window_runs_by_the_models_own_code() -> None:
    model = model_of("Mistral", num_key_value_heads=2, sliding_window=4)
    fast = sg.sparse(model, {"input_ids": prompt()})
    assert torch.equal(text(fast, prompt()), text(model, prompt()))
    assert not plans(fast)


def test_a_model_that_came_back_from_pickle_generates(llama: Any) -> None:
    model, fast = llama
    again = pickle.loads(pickle.dumps(fast))
    assert torch.equal(text(again, prompt()), text(model, prompt()))


def test_loaded_weights_count_for_the_next_token(llama: Any) -> None:
    fast = copy.deepcopy(llama[1])
    text(fast, prompt())
    other = model_of("Llama", num_key_value_heads=2)
    for parameter in other.parameters():
        parameter.data = parameter.flip(0)
    fast.load_state_dict(other.state_dict())
    assert torch.equal(text(fast, prompt()), text(other, prompt()))


def test_the_operator_is_attention_to_past_and_new_tokens() -> None:
    torch.manual_seed(0)
    keys, values = torch.randn(2, 1, 1, 8, 16), torch.randn(2, 1, 1, 16, 6)
    q, k, v = torch.randn(1, 2, 1, 8), torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 6)
    got = attend_cached(q, k, v, keys, values, torch.tensor([3, 16]), 1, 0.5)
    seen = torch.cat([keys[1, 0, 0, :, :3].T, k[0, 0]])
    scores = (0.5 * q[0, :, 0] @ seen.T).softmax(-1)
    want = scores @ torch.cat([values[1, 0, 0, :3], v[0, 0]])
    torch.testing.assert_close(got[0, :, 0], want)
