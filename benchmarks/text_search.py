"""Tries ways to prune a small recurrent network on tiny Shakespeare, and keeps bits per character.

    python benchmarks/text_search.py --data TEXT --looks LOOKS.jsonl --out OUT.json

TEXT is one file, whose last tenth is for validation. A line of LOOKS is a `Look` as JSON, as in
`rate_search.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from rate_search import METHODS, Look, gradual, next_look
from torch import nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate_lab.train import machine, versions
from sparsegate_runtime.atomic import write_atomically

TITLE = "Ways to prune a GRU of 86,208 weights on tiny Shakespeare: AdamW with one cycle"
BATCH, LENGTH, STEPS_PER_EPOCH = 32, 64, 200


class CharGRU(nn.Module):
    """An embedding, a GRU and a readout."""

    def __init__(self, num_chars: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_chars, 64)
        self.gru = nn.GRU(64, 128, batch_first=True)
        self.readout = nn.Linear(128, num_chars)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.readout(self.gru(self.embedding(text))[0])
        return logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--looks", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    text = options.data.read_text()
    chars = sorted(set(text))
    codes = torch.tensor([chars.index(char) for char in text])
    rows = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    while look := next_look(options.looks, rows):
        rows.append({"look": dataclasses.asdict(look), **train(look, codes, len(chars))})
        print(json.dumps(rows[-1]), flush=True)
        command = "python benchmarks/text_search.py --data TEXT --looks LOOKS.jsonl --out OUT.json"
        value = {"title": TITLE, "command": command, "machine": machine(), "rows": rows}
        value["versions"] = versions()
        write_atomically(options.out, (json.dumps(value, indent=1) + "\n").encode())


def train(look: Look, codes: torch.Tensor, num_chars: int) -> dict[str, Any]:
    """Trains a network and measures it."""
    torch.manual_seed(look.seed)
    model: nn.Module = CharGRU(num_chars)
    train_part, held = codes[: len(codes) * 9 // 10], codes[len(codes) * 9 // 10 :]
    steps = look.epochs * STEPS_PER_EPOCH
    method = METHODS.get(look.method, gradual)(look, model, steps)
    order, began = torch.Generator().manual_seed(look.seed), time.time()
    for step in range(steps):
        first = torch.randint(len(train_part) - LENGTH - 1, (BATCH, 1), generator=order)
        batch = train_part[first + torch.arange(LENGTH + 1)]
        model.train()
        F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
        method((step + 1) / steps)
    if look.method == "gates":
        model = sg.finish(model)
    layers = [int(each.count_nonzero()) for each in model.parameters() if each.ndim > 1]
    bits = bits_per_char(model, held)
    seconds = round(time.time() - began)
    return {"validation": bits, "kept": sum(layers), "layers": layers, "seconds": seconds}


@torch.no_grad()
def bits_per_char(model: nn.Module, codes: torch.Tensor) -> float:
    """Mean bits of a character, in pieces of 256 characters."""
    model.eval()
    pieces = codes[: len(codes) // 257 * 257].view(-1, 257)
    logits = model(pieces[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten())
    return round(float(loss) / math.log(2), 4)


if __name__ == "__main__":
    main()
