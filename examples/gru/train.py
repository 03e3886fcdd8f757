"""Trains a GRU on characters with one weight in ten, and writes a little text."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sparsegate as sg

LENGTH = 64  # characters that the network sees at once


class Reader(nn.Module):
    """Predicts the next character of a text."""

    def __init__(self, letters: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(letters, 32)
        self.gru = nn.GRU(32, width, batch_first=True)
        self.out = nn.Linear(width, letters)

    def forward(self, text: Tensor) -> Tensor:
        """Scores of the next character, at every position."""
        return self.out(self.gru(self.embed(text))[0])


def batch(text: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Pieces of the text at random places, and the characters that follow each position."""
    begins = torch.randint(len(text) - LENGTH - 1, (count,))
    pieces = torch.stack([text[begin : begin + LENGTH + 1] for begin in begins])
    return pieces[:, :-1], pieces[:, 1:]


@torch.no_grad()
def bits(model: nn.Module, text: Tensor) -> float:
    """Bits per character of a text that the network has not seen."""
    pieces = text[: len(text) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)
    model.eval()
    losses = [
        F.cross_entropy(model(some[:, :-1]).transpose(1, 2), some[:, 1:]).item()
        for some in pieces.split(100)
    ]
    model.train()
    return sum(losses) / len(losses) / math.log(2)


@torch.no_grad()
def written(model: nn.Module, begin: Tensor, count: int) -> list[int]:
    """The characters that the network adds, drawn one after the other."""
    text = begin
    for _ in range(count):
        scores = model(text[None, -LENGTH:])[0, -1]
        text = torch.cat([text, torch.multinomial((1.5 * scores).softmax(0), 1)])
    found: list[int] = text.tolist()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="a text, such as tiny Shakespeare")
    parser.add_argument("--keep", type=float, default=0.1, help="fraction of weights that is left")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--out", type=Path, default=Path("gru.sg"))
    options = parser.parse_args()
    torch.manual_seed(0)
    text = options.text.read_text()
    letters = sorted(set(text))
    whole = torch.tensor([letters.index(each) for each in text])
    seen, unseen = whole[: -len(whole) // 10], whole[-len(whole) // 10 :]

    model = sg.gate(Reader(len(letters), options.width))
    target = sg.Target(keep=options.keep)
    optimizer = sg.GatedAdamW(model, lr=4e-3, clip=1.0, target=target, steps=options.steps)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    for step in range(options.steps):
        inputs, following = batch(seen, 32)
        loss = F.cross_entropy(model(inputs).transpose(1, 2), following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if (step + 1) % (options.steps // 5) == 0:
            print(f"step {step + 1}: {loss.item() / math.log(2):.2f} bits; {optimizer.found}")

    model = sg.finish(model)
    sg.compress(model).save(options.out)
    print(f"{bits(model, unseen):.3f} bits per character of unseen text")
    print(f"{options.out.stat().st_size:,} bytes in {options.out}")
    print("".join(letters[index] for index in written(model, unseen[:LENGTH], 200)))


if __name__ == "__main__":
    main()
