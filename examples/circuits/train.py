"""Trains a transformer on characters whose weights are nearly all zero, from the start."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sparsegate as sg

LENGTH = 64  # characters that the network sees at once
WIDTH, HEADS, LAYERS = 64, 4, 2


class Layer(nn.Module):
    """Attention, then neurons; both add to what they read."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.num_heads = heads
        self.before_heads, self.before_neurons = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key, self.value, self.heads_out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.neurons, self.neurons_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, stream: Tensor) -> Tensor:
        """The stream of every character, with what this layer adds."""
        read = self.before_heads(stream)
        query, key, value = (
            part(read).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        stream = stream + self.heads_out(seen.transpose(1, 2).flatten(2))
        return stream + self.neurons_out(F.relu(self.neurons(self.before_neurons(stream))))


class Transformer(nn.Module):
    """Predicts the next character: 110,720 weights unless it is narrower."""

    def __init__(self, letters: str, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.letters = letters
        self.character = nn.Embedding(len(letters), width)
        self.position = nn.Embedding(LENGTH, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(width)
        self.out = nn.Linear(width, len(letters))

    def forward(self, text: Tensor) -> Tensor:
        """Scores of the next character, at every position."""
        stream = self.character(text) + self.position.weight[: text.shape[1]]
        for layer in self.layers:
            stream = layer(stream)
        return self.out(self.norm(stream))


def read(path: Path) -> tuple[str, Tensor, Tensor]:
    """The characters of a text, nine tenths of it to learn from, and the last tenth."""
    text = path.read_text()
    letters = "".join(sorted(set(text)))
    index = {letter: number for number, letter in enumerate(letters)}
    whole = torch.tensor([index[letter] for letter in text])
    cut = len(whole) * 9 // 10
    return letters, whole[:cut], whole[cut:]


def loss_of(model: nn.Module, pieces: Tensor) -> Tensor:
    """The mean loss of predicting every character from those before it."""
    return F.cross_entropy(model(pieces[:, :-1]).transpose(1, 2), pieces[:, 1:])


@torch.no_grad()
def bits(model: nn.Module, text: Tensor) -> float:
    """Bits per character of a text that the network has not seen."""
    pieces = text[: len(text) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)
    losses = [loss_of(model.eval(), some).item() * len(some) for some in pieces.split(100)]
    model.train()
    return sum(losses) / len(pieces) / math.log(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="a text, such as tiny Shakespeare")
    parser.add_argument("--keep", type=float, default=0.01, help="fraction of weights that is left")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("circuits.sg"))
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    letters, seen, unseen = read(options.text)
    model = sg.gate(Transformer(letters))
    target = sg.Target(keep=options.keep)
    optimizer = sg.GatedAdamW(model, lr=3e-3, clip=1.0, target=target, steps=options.steps)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    for step in range(options.steps):
        begins = torch.randint(len(seen) - LENGTH - 1, (32,))
        loss = loss_of(model, torch.stack([seen[at : at + LENGTH + 1] for at in begins]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if (step + 1) % max(1, options.steps // 10) == 0:
            print(f"step {step + 1}: {loss.item() / math.log(2):.2f} bits", flush=True)
    print(optimizer.found)
    model = sg.finish(model)
    sg.compress(model).save(options.out)
    print(f"{bits(model, unseen):.3f} bits per character of unseen text")
    print(f"{options.out.stat().st_size:,} bytes in {options.out}")


if __name__ == "__main__":
    main()
