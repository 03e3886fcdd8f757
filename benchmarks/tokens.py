"""Times generation token by token with a cache: python benchmarks/tokens.py [--tokens 24] [--rounds 5].

Models of the transformers library with random weights, at batch 1: `model.generate` by PyTorch, and by
the model that `sg.sparse` returns, in turns. 90 % of the weights of every layer are zeros; the output
layer, which both models share with the embedding or keep apart, is timed with zeros and without.
Of a token's time, the part in the engine is measured once more, without transformers' own code.
Writes results/tokens.json.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.bench import machine, versions
from sparsegate.runtime import sparse
from sparsegate_runtime.atomic import write_atomically

ZEROS = 0.9
PROMPT = 16
"""Tokens before the first that is generated."""
Row = dict[str, Any]


def gpt2() -> nn.Module:
    """GPT-2 as published: 12 layers of 768, 50,257 words."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(bos_token_id=0, eos_token_id=None))


def llama() -> nn.Module:
    """A Llama of 12 layers of 1,024, with grouped heads and 32,000 words."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=1024,
            intermediate_size=2816,
            num_hidden_layers=12,
            num_attention_heads=16,
            num_key_value_heads=4,
            vocab_size=32000,
            eos_token_id=None,
        )
    )


MODELS: dict[str, Callable[[], nn.Module]] = {"gpt2": gpt2, "llama": llama}


def pruned(model: nn.Module, *, head: bool) -> nn.Module:
    """Sets the smallest weights of every layer to zero; those of the output layer if asked."""
    whole = set() if head else {id(model.get_output_embeddings().weight)}  # type: ignore[operator]
    for parameter in model.parameters():
        is_table = parameter is model.get_input_embeddings().weight  # type: ignore[operator]
        is_tied = parameter is model.get_output_embeddings().weight  # type: ignore[operator]
        if parameter.ndim < 2 or id(parameter) in whole or (is_table and not is_tied):
            continue
        size = parameter.detach().abs()
        edge = size.flatten().kthvalue(int(ZEROS * size.numel())).values
        parameter.data[size <= edge] = 0
    return model.eval().requires_grad_(False)


def generated(model: nn.Module, ids: Tensor, count: int) -> Tensor:
    """The prompt and the tokens that follow."""
    given = {"attention_mask": torch.ones_like(ids), "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        return model.generate(ids, max_new_tokens=count, **given)  # type: ignore[operator, no-any-return]


def row(name: str, *, head: bool, options: argparse.Namespace) -> Row:
    """Milliseconds a token of both."""
    torch.manual_seed(options.seed)
    model = pruned(MODELS[name](), head=head)
    ids = torch.randint(1, 1000, (1, PROMPT))
    began = time.perf_counter()
    fast = sparse(model, {"input_ids": ids})
    planning = time.perf_counter() - began
    ways = {"torch eager": model, "sparsegate": fast}
    texts = {way: generated(each, ids, options.tokens) for way, each in ways.items()}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, each in ways.items():
            taken[way].append(_seconds(each, ids, options.tokens))
    times = {way: round(1e3 * statistics.median(each), 4) for way, each in taken.items()}
    return {
        "model": name,
        "zeros": ZEROS,
        "output_layer_has_zeros": head,
        "milliseconds_a_token": times,
        "over_eager": round(times["torch eager"] / times["sparsegate"], 3),
        "milliseconds_in_the_engine": round(_in_engine(fast, ids, options.tokens), 4),
        "same_text": bool(torch.equal(*texts.values())),
        "planning_seconds": round(planning, 2),
    }


def _seconds(model: nn.Module, ids: Tensor, count: int) -> float:
    """Seconds a token: a long text less a short one, so that the prompt does not count."""
    spent = []
    for tokens in (1, 1 + count):
        began = time.perf_counter()
        generated(model, ids, tokens)
        spent.append(time.perf_counter() - began)
    return (spent[1] - spent[0]) / count


def _in_engine(fast: nn.Module, ids: Tensor, count: int) -> float:
    """Milliseconds a token without `generate` itself: the median over a text; 0 if none ran there."""
    forward: Any = fast.__dict__["forward"]
    steps, spent = forward.steps, []

    def timed(kwargs: Any) -> Any:
        began = time.perf_counter()
        out = steps(kwargs)
        if out is not None:
            spent.append(time.perf_counter() - began)
        return out

    forward.steps = timed
    generated(fast, ids, count)
    forward.steps = steps
    return 1e3 * statistics.median(spent) if spent else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/tokens.json"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for name in options.only:
        for head in (True, False):
            rows.append(row(name, head=head, options=options))
            print(rows[-1], flush=True)
    found = {
        "title": "Token by token with a cache, batch 1: milliseconds a token, medians in turns",
        "command": shlex.join(["python", "benchmarks/tokens.py", *sys.argv[1:]]),
        "seed": options.seed,
        "machine": machine(),
        "versions": {**versions(), "transformers": __import__("transformers").__version__},
        "rows": rows,
    }
    import json

    write_atomically(options.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
