"""What gates cost, and what the loop costs: epochs of LeNet-5, interleaved, as medians of ratios.

Four ways to train the same network for one epoch, with the same batches and one look at the
validation split: a loop written by hand in plain PyTorch, our loop with the dense method, our loop
with gates that are all open at first, and with gates of which half are closed, so that the masks
are mixed as they are later in training.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from sparsegate_lab.data import Shift, mnist
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.models import LeNet5
from sparsegate_lab.record import Epoch
from sparsegate_lab.train import Run, Watcher, machine, train, versions


class Stopwatch(Watcher):
    """Takes the time from the first step to the end of the first epoch, its checkpoint included."""

    seconds = 0.0

    def began(self, run: Run[Any], folder: Path, step: int, steps: int, num_weights: int) -> None:
        self.seconds = -time.perf_counter()

    def measured(self, epoch: Epoch) -> None:
        self.seconds += time.perf_counter()


def by_hand(batch_size: int, seed: int) -> float:
    """One epoch as a careful person writes it."""
    data, shift = mnist(), Shift(2)
    model = LeNet5().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    steps = len(data.train) // batch_size
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    began = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(data.train), generator=generator)
    offsets = shift.draw(len(data.train), generator)
    total = torch.zeros(())
    for step in range(steps):
        chosen = order[step * batch_size : (step + 1) * batch_size]
        moved = offsets[step * batch_size : (step + 1) * batch_size]
        images = data.normalise(shift.apply(data.train.images[chosen], moved))
        loss = F.cross_entropy(model(images), data.train.labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.detach()
    model.eval()
    with torch.no_grad():
        for begin in range(0, len(data.validation), 1000):
            part = data.validation.part(begin, begin + 1000)
            (model(data.normalise(part.images)).argmax(1) == part.labels).sum()
    return time.perf_counter() - began


def by_the_loop(method: Dense | LearnedGates, batch_size: int, seed: int) -> float:
    """One epoch of our loop."""
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        train(
            Run(method=method, epochs=1, batch_size=batch_size, seed=seed),
            folder=folder,
            watch=watch,
        )
    return watch.seconds


def _ratio(ones: list[float], others: list[float]) -> float:
    """The median of the rounds' ratios: a machine that is faster for some rounds is so for both."""
    return round(statistics.median(one / other for one, other in zip(ones, others, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    ways: dict[str, Callable[[int], float]] = {
        "by hand, dense": lambda seed: by_hand(options.batch_size, seed),
        "loop, dense": lambda seed: by_the_loop(Dense(), options.batch_size, seed),
        "loop, gates": lambda seed: by_the_loop(LearnedGates(), options.batch_size, seed),
        "loop, gates half closed": lambda seed: by_the_loop(
            LearnedGates(keep=0.5), options.batch_size, seed
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(options.rounds + 1):
        names = list(ways)
        for name in names[number % 4 :] + names[: number % 4]:  # none always runs first
            taken = ways[name](number)
            if number:  # the first round warms up
                seconds[name].append(round(taken, 3))
        print({name: each[-1:] for name, each in seconds.items()}, flush=True)
    ratios = {
        "gates / dense, same loop (at most 1.10)": _ratio(
            seconds["loop, gates"], seconds["loop, dense"]
        ),
        "gates half closed / dense, same loop": _ratio(
            seconds["loop, gates half closed"], seconds["loop, dense"]
        ),
        "loop / by hand, dense (at most 1.05)": _ratio(
            seconds["loop, dense"], seconds["by hand, dense"]
        ),
    }
    result = {
        "title": "One epoch of LeNet-5 on MNIST: what gates and the loop cost",
        "command": f"python benchmarks/epoch_cost.py --rounds {options.rounds} --batch-size {options.batch_size}",
        "machine": machine(),
        "versions": versions(),
        "seconds": seconds,
        "median_seconds": {name: statistics.median(each) for name, each in seconds.items()},
        "ratios": ratios,
    }
    options.results.mkdir(exist_ok=True)
    (options.results / "epoch-cost.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(ratios, indent=1))


if __name__ == "__main__":
    main()
