"""Writes one sparse network in every format, and asks each for the same predictions."""

from __future__ import annotations

import argparse
import gzip
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate.export import to_web


def read(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    """Images in [0, 1] and labels of a part of Fashion-MNIST, as its authors publish it."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return torch.tensor(pixels) / 255, torch.tensor(labels).long()


def network() -> nn.Module:
    """LeNet-5 as in Caffe: 431,080 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
    )  # fmt: skip


def trained(images: Tensor, labels: Tensor, weights: int, epochs: int) -> nn.Module:
    """A network with so many weights."""
    steps = epochs * (len(images) // 100)
    model = sg.gate(network())
    target = sg.Target(weights=weights)
    optimizer = sg.GatedAdamW(model, lr=2e-3, target=target, steps=steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).split(100)[: len(images) // 100]:
            loss = F.cross_entropy(model(images[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(optimizer.found)
    return sg.finish(model).eval()


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the four files of Fashion-MNIST")
    parser.add_argument("--weights", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, help="train on the first images only")
    parser.add_argument("--out", type=Path, default=Path("formats"))
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    torch.manual_seed(0)
    with torch.enable_grad():
        seen = (each[: options.images] for each in read(options.data, "train"))
        model = trained(*seen, options.weights, options.epochs)
    images, labels = (each[:500] for each in read(options.data, "t10k"))
    answers = model(images).argmax(1)
    print(f"{100 * (answers == labels).float().mean():.1f} % of 500 test images in PyTorch")

    def show(path: Path, predicted: Tensor | None) -> None:
        same = "" if predicted is None else f"{int((predicted == answers).sum())} of 500 the same"
        print(f"{path.name:24} {path.stat().st_size:9,} bytes  {same}")

    dense = options.out / "dense.pt"
    torch.save(model.state_dict(), dense)
    show(dense, answers)
    for ending in ("sg", "sparse.safetensors"):
        path = options.out / f"network.{ending}"
        sg.compress(model).save(path)
        show(path, sg.load(path).into(network()).eval()(images).argmax(1))
    fast = sg.sparse(model, example=images)
    same = int((fast(images).argmax(1) == answers).sum())
    print(f"{'sg.sparse':24} {'in memory':>15}  {same} of 500 the same")
    for dtype in ("fp32", "int8"):
        path = options.out / f"network_{dtype}.c"
        written = sg.to_c(model, path, example=images, dtype=dtype)
        show(path, by_program(written.command, path.with_suffix(""), images))
    page = options.out / "network.html"
    to_web(model, page, example=images)
    show(page, None)


def by_program(command: str, program: Path, images: Tensor) -> Tensor | None:
    """The predictions of the compiled program; None without a compiler."""
    if shutil.which("cc") is None:
        return None
    subprocess.run(shlex.split(command), check=True)
    given = images.numpy().tobytes()
    done = subprocess.run([program.resolve()], input=given, capture_output=True, check=True)
    return torch.tensor([int(line) for line in done.stdout.split()])


if __name__ == "__main__":
    main()
