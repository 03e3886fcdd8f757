"""Trains a small CNN on Fashion-MNIST with one weight in twenty, in a loop of its own."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sparsegate as sg


def read(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    """Images in [-1, 1] and labels of a part of Fashion-MNIST, as its authors publish it."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return torch.tensor(pixels) / 127.5 - 1, torch.tensor(labels).long()


def network() -> nn.Module:
    """Two convolutions and two linear layers: 421,642 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The accuracy in percent."""
    model.eval()
    right = sum(
        int((model(some).argmax(1) == their).sum())
        for some, their in zip(images.split(500), labels.split(500), strict=True)
    )
    model.train()
    return 100 * right / len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the four files of Fashion-MNIST")
    parser.add_argument("--keep", type=float, default=0.05, help="fraction of weights that is left")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--images", type=int, help="train on the first images only")
    parser.add_argument("--out", type=Path, default=Path("fashion.sg"))
    options = parser.parse_args()
    torch.manual_seed(0)
    images, labels = (each[: options.images] for each in read(options.data, "train"))
    steps = options.epochs * (len(images) // 100)

    model = sg.gate(network())
    target = sg.Target(keep=options.keep)
    optimizer = sg.GatedAdamW(model, lr=2e-3, target=target, steps=steps)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    for epoch in range(options.epochs):
        for chosen in torch.randperm(len(images)).split(100)[: len(images) // 100]:
            loss = F.cross_entropy(model(images[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}; {optimizer.found}")

    model = sg.finish(model)
    sg.compress(model).save(options.out)
    model = sg.load(options.out).into(network())
    print(f"{accuracy(model, *read(options.data, 't10k')):.2f} % of the test images")
    print(f"{options.out.stat().st_size:,} bytes in {options.out}")


if __name__ == "__main__":
    main()
