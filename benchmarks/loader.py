"""How many images a second come out of the cache, changed and normalized, against what AlexNet takes.

    python benchmarks/loader.py --data data/imagenette --out results/loader.json

*On the device*: all squares lie there as bytes. *Fetched ahead*: they lie in the memory-mapped
cache on the host, as ImageNet's must, and a thread brings every batch over. Each batch is cropped,
resized, mirrored, jittered and normalized at 224x224, as the recipe `alexnet-imagenette` does it.
AlexNet (torchvision's, 224x224) is trained in bf16 on batches that are already there; with
--compile, as with that flag of `sparsegate train`, both are compiled. Ways take turns; the rate is
the median of the rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from sparsegate_lab.data import Dataset, Split, Storing, load_data
from sparsegate_lab.models import MODELS
from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.train import Batches, Run, augments_of, machine, normaliser_of, versions

MADE_UP = 8192  # squares of noise, where there is no folder


def made_up(size: int, folder: str) -> Dataset:
    """Noise in the place of photographs, in a file that is mapped into memory as the cache is."""
    draw = torch.Generator().manual_seed(0)
    path, shape = Path(folder) / "squares", (MADE_UP, 3, size, size)
    torch.randint(0, 256, shape, dtype=torch.uint8, generator=draw).numpy().tofile(path)
    images = torch.from_file(
        str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8
    ).reshape(shape)
    split = Split(images, torch.randint(0, 10, (MADE_UP,), generator=draw))
    return Dataset(split, split.part(0, 10), split.part(0, 10), resizable=True)


def endless(batches: Batches) -> Iterator[Any]:
    """Batches of one epoch after the other."""
    number = 0
    while True:
        yield from batches.epoch(number)
        number += 1


def training(
    run: Run[Any], batch: int, device: torch.device, *, compiled: bool
) -> Callable[[], None]:
    """A step of dense training on a batch that is already there."""
    model = MODELS[run.model](num_classes=10).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    forward: nn.Module = torch.compile(model, dynamic=False) if compiled else model  # type: ignore[assignment]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images = torch.randn(batch, *model.image_shape, device=device).contiguous(
        memory_format=torch.channels_last
    )
    labels = torch.randint(0, 10, (batch,), device=device)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def rate(step: Callable[[], Any], batch: int, seconds: float, device: torch.device) -> float:
    """Images a second of a step that is repeated for a while."""
    step()
    settle(device)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(4):
            step()
        count += 4
        settle(device)
    return count * batch / (time.perf_counter() - began)


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:  # what is mapped stays until nobody looks at it
        data = (
            load_data(str(args.data), Storing(size=args.size))
            if args.data
            else made_up(args.size, folder)
        )
    run = dataclasses.replace(RECIPES["alexnet-imagenette"](), stored_size=args.size)
    view, augments = normaliser_of(run, data), augments_of(run)
    whole = Batches(
        data.train.to(device), view, augments, args.batch, seed=0, compiled=args.compile
    )
    ahead = dataclasses.replace(whole, split=data.train, fetch_to=device)
    near, far = endless(whole), endless(ahead)
    ways: dict[str, Callable[[], Any]] = {
        "on the device": lambda: next(near),
        "fetched ahead": lambda: next(far),
        "alexnet": training(run, args.batch, device, compiled=args.compile),
    }
    for step in ways.values():  # warms up, compiles
        rate(step, args.batch, args.seconds / 2, device)
    rounds = [
        {name: rate(step, args.batch, args.seconds, device) for name, step in ways.items()}
        for _ in range(args.rounds)
    ]
    rates = {name: round(statistics.median(each[name] for each in rounds)) for name in ways}
    return {
        "batch": args.batch,
        "stored_size": args.size,
        "images": len(data.train),
        "made_up": args.data is None,
        "compiled": args.compile,
        "images_per_second": rates,
        "times_alexnet": {
            name: round(rates[name] / rates["alexnet"], 2) for name in ways if name != "alexnet"
        },
        "rounds": [{name: round(value) for name, value in each.items()} for each in rounds],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with train and val; noise without it")
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    result = {
        "title": "Images a second from the cache, and what AlexNet takes",
        "command": f"python benchmarks/loader.py --batch {args.batch}"
        + " --data imagenette" * bool(args.data)
        + " --compile" * args.compile,
        "machine": machine(),
        "versions": versions(),
        **measure(args, device),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
