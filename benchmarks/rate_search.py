"""Tries ways to prune small networks on Fashion-MNIST in a plain loop, and keeps accuracies of each.

    python benchmarks/rate_search.py --data DATA --looks LOOKS.jsonl --out results/rate-search.json

DATA is a folder with the idx files of Fashion-MNIST. A line of LOOKS is a `Look` as JSON. Looks
that are in OUT already are not made again. Settings are chosen by the validation split: the last
5,000 training images.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate.gates import gated_weights
from sparsegate.schedule import Gradual
from sparsegate_lab.data import Split, load_data
from sparsegate_lab.layers import SCORES, add_masks, apply_masks_, cut_to_, masks
from sparsegate_lab.models import LeNet300, SmallCNN
from sparsegate_lab.train import machine, versions
from sparsegate_runtime.atomic import write_atomically

TITLE = "Ways to prune small networks on Fashion-MNIST: AdamW with one cycle, batch 128"
NETWORKS: dict[str, type[nn.Module]] = {"small-cnn": SmallCNN, "lenet300": LeNet300}
BATCH = 128
MEAN, DEVIATION = 0.286, 0.353
GRADUAL = Gradual(begin=0.15, end=0.75)


@dataclass(frozen=True)
class Look:
    """One training."""

    method: str
    """dense, gates, gradual pruning ranked by network, layer or lamp, or once: one cut at first."""
    keep: float
    seed: int = 0
    epochs: int = 8
    lr: float = 3e-3
    target: dict[str, Any] = field(default_factory=dict)
    """Settings of the target, other than keep."""
    to_closed: float = 0.0
    """For gates: factor on the gradients of weights whose gates are closed."""
    weights: str = ""
    """Initial weights, a state dict of torch."""
    save: str = ""
    """Where to save the trained weights, for other looks to begin with."""
    network: str = "small-cnn"
    held: int = 5000
    """Training images of the validation split; with more, the test split is not looked at."""


@dataclass(frozen=True)
class Images:
    """Normalized images in memory, with their labels."""

    images: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def of(cls, split: Split) -> Images:
        images = split.images.float().div_(255).sub_(MEAN).div_(DEVIATION)
        return cls(images.contiguous(memory_format=torch.channels_last), split.labels.long())

    @torch.no_grad()
    def accuracy(self, model: nn.Module) -> float:
        model.eval()
        chunks = zip(self.images.split(1000), self.labels.split(1000), strict=True)
        right = sum(int((model(image).argmax(1) == label).sum()) for image, label in chunks)
        return round(100 * right / len(self.labels), 2)

    @torch.no_grad()
    def loss(self, model: nn.Module) -> float:
        """The mean cross entropy, less noisy than an accuracy."""
        model.eval()
        chunks = zip(self.images.split(1000), self.labels.split(1000), strict=True)
        losses = [
            float(F.cross_entropy(model(image), label, reduction="sum")) for image, label in chunks
        ]
        return round(sum(losses) / len(self.labels), 5)

    def parts(self, first: int) -> tuple[Images, Images]:
        """The first images and the others."""
        images, labels = self.images, self.labels
        return Images(images[:first], labels[:first]), Images(images[first:], labels[first:])

    def joined(self, other: Images) -> Images:
        """These images before others."""
        both = torch.cat([self.images, other.images]), torch.cat([self.labels, other.labels])
        return Images(*both)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--looks", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    data = load_data(options.data)
    splits = {name: Images.of(getattr(data, name)) for name in ("train", "validation", "test")}
    rows = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    while look := next_look(options.looks, rows):
        rows.append({"look": dataclasses.asdict(look), **train(look, splits)})
        print(json.dumps(rows[-1]), flush=True)
        command = "python benchmarks/rate_search.py --data DATA --looks LOOKS.jsonl --out OUT.json"
        value = {"title": TITLE, "command": command, "machine": machine(), "rows": rows}
        value["versions"] = versions()
        write_atomically(options.out, (json.dumps(value, indent=1) + "\n").encode())


def next_look(path: Path, rows: list[dict[str, Any]]) -> Look | None:
    """The first look without a row; the file is read again each time, so it can be extended.

    Rows that were made by another version of the library say so in `library`, and do not count.
    """
    made = [dataclasses.asdict(Look(**row["look"])) for row in rows if "library" not in row]
    looks = [Look(**json.loads(line)) for line in path.read_text().splitlines() if line]
    return next((look for look in looks if dataclasses.asdict(look) not in made), None)


def train(look: Look, splits: dict[str, Images]) -> dict[str, Any]:
    """Trains a network and measures it."""
    torch.manual_seed(look.seed)
    model = NETWORKS[look.network]().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if look.weights:
        model.load_state_dict(torch.load(look.weights, weights_only=True))
    splits = with_held(splits, look.held)
    images = splits["train"]
    steps_per_epoch = len(images.labels) // BATCH
    steps = look.epochs * steps_per_epoch
    method = METHODS.get(look.method, gradual)(look, model, steps)
    order, began = torch.Generator().manual_seed(look.seed), time.time()
    for epoch in range(look.epochs):
        chosen = torch.randperm(len(images.labels), generator=order)
        for index, batch in enumerate(chosen[: steps_per_epoch * BATCH].split(BATCH)):
            model.train()
            F.cross_entropy(model(images.images[batch]), images.labels[batch]).backward()
            method((epoch * steps_per_epoch + index + 1) / steps)
    if look.method == "gates":
        model = sg.finish(model)
    layers = [int(each.count_nonzero()) for each in model.parameters() if each.ndim > 1]
    if look.save:
        torch.save(model.state_dict(), look.save)
    measured = {name: splits[name].accuracy(model) for name in splits if name != "train"}
    measured["loss"] = splits["validation"].loss(model)
    seconds = round(time.time() - began)
    return {**measured, "kept": sum(layers), "layers": layers, "seconds": seconds}


def with_held(splits: dict[str, Images], held: int) -> dict[str, Images]:
    """The splits with this many validation images, without a test split if that is not usual."""
    if held == len(splits["validation"].labels):
        return splits
    together = splits["train"].joined(splits["validation"])
    train, validation = together.parts(len(together.labels) - held)
    return {"train": train, "validation": validation}


Step = Callable[[float], None]


def adamw(look: Look, params: list[nn.Parameter], steps: int) -> Callable[[], None]:
    """A function that takes a step of AdamW in one cycle of the learning rate."""
    optimizer = torch.optim.AdamW(params, lr=look.lr, weight_decay=0.01)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, look.lr, total_steps=steps)

    def step() -> None:
        optimizer.step()
        cycle.step()
        optimizer.zero_grad()

    return step


def dense(look: Look, model: nn.Module, steps: int) -> Step:
    """Trains without pruning."""
    step = adamw(look, list(model.parameters()), steps)
    return lambda progress: step()


def gradual(look: Look, model: nn.Module, steps: int) -> Step:
    """Removes weights along a cube, every five steps."""
    score = SCORES[look.method]
    step = adamw(look, list(add_masks(model).parameters()), steps)
    every = [0]

    def after(progress: float) -> None:
        step()
        apply_masks_(model)
        every[0] += 1
        if every[0] % 5 == 0 and progress >= GRADUAL.begin:
            keep = GRADUAL.keep(progress, of=look.keep)
            cut_to_(model, keep, {name: score(each.weight) for name, each in masks(model).items()})

    return after


def once(look: Look, model: nn.Module, steps: int) -> Step:
    """Cuts to the largest weights of the network before the first step."""
    step = adamw(look, list(add_masks(model).parameters()), steps)
    score = SCORES["network"]
    cut_to_(model, look.keep, {name: score(each.weight) for name, each in masks(model).items()})

    def after(progress: float) -> None:
        step()
        apply_masks_(model)

    return after


def gated(look: Look, model: nn.Module, steps: int) -> Step:
    """Learned gates with a target."""
    sg.gate(model)
    gates = sg.GateSGD(model, target=sg.Target(keep=look.keep, **look.target), steps=steps)
    step = adamw(look, list(sg.weights(model)), steps)

    def after(progress: float) -> None:
        if look.to_closed:
            add_closed_gradients_(model, look.to_closed)
        step()
        gates.step()
        gates.zero_grad()

    return after


@torch.no_grad()
def add_closed_gradients_(model: nn.Module, factor: float) -> None:
    """Gives weights of closed gates this share of the gradient, which their gates got."""
    for gate, weight in zip(sg.gates(model).values(), gated_weights(model), strict=True):
        closed = ~gate.mask() & (weight.abs() > 1e-12)
        assert weight.grad is not None
        assert gate.gate.grad is not None
        weight.grad += torch.where(closed, factor * gate.gate.grad / weight, 0.0)


METHODS: dict[str, Callable[[Look, nn.Module, int], Step]] = {
    "dense": dense,
    "once": once,
    "gates": gated,
}

if __name__ == "__main__":
    main()
