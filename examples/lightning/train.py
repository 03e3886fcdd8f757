"""Trains a LightningModule with one weight in twenty: one callback more, the module unchanged."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import sparsegate as sg
from sparsegate.integrations.lightning import GateCallback


class Classifier(L.LightningModule):
    """A module as one writes it without sparsegate."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(),
            nn.Linear(100, 10),
        )  # fmt: skip

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        """The loss of a batch."""
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def test_step(self, batch: list[Tensor], index: int) -> None:
        """Logs the accuracy."""
        right = self.net(batch[0]).argmax(1) == batch[1]
        self.log("accuracy", 100 * right.float().mean(), batch_size=len(right))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam on all parameters; the callback takes the gates out."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def loader(folder: Path, part: str, images: int | None) -> DataLoader[tuple[Tensor, ...]]:
    """Batches of Fashion-MNIST, as its authors publish it."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    tensors = torch.tensor(pixels) / 127.5 - 1, torch.tensor(labels).long()
    data = TensorDataset(*(each[:images] for each in tensors))
    return DataLoader(data, batch_size=100, shuffle=part == "train", drop_last=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the four files of Fashion-MNIST")
    parser.add_argument("--keep", type=float, default=0.05, help="fraction of weights that is left")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--images", type=int, help="train on the first images only")
    parser.add_argument("--out", type=Path, default=Path("lightning.sg"))
    options = parser.parse_args()
    L.seed_everything(0, verbose=False)
    module = Classifier()
    gates = GateCallback(target=sg.Target(keep=options.keep))
    trainer = L.Trainer(
        max_epochs=options.epochs,
        callbacks=[gates],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, loader(options.data, "train", options.images))
    print(gates.found)
    trainer.test(module, loader(options.data, "t10k", None))
    sg.compress(module.net).save(options.out)
    print(f"{options.out.stat().st_size:,} bytes in {options.out}")


if __name__ == "__main__":
    main()
