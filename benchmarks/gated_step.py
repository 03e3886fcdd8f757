"""A gated training step on a GPU against a dense one: time and memory of every way to move weights and gates.

Both compiled, bfloat16 autocast, channels-last, images of 224 x 224 on the device. Ways take turns, ten steps at
a time; the ratio is the median of the rounds' ratios. Memory is the peak of a step less that of the dense one, by gated
weight, each way alone on the device, for the first case.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate.models import MODELS
from sparsegate.train.provenance import machine, versions

CASES = (("alexnet-torchvision", 128), ("alexnet-torchvision", 512), ("vgg16", 64), ("vgg16", 256))
WAYS = ("dense", "apart", "together", "small")
STEPS = 10
LR, MOMENTUM, DECAY, GATE_LR = 0.01, 0.9, 1e-4, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--limit", type=float, default=400.0, help="seconds after which no further case begins")
    parser.add_argument("--eager", action="store_true", help="measure without torch.compile, too")
    parser.add_argument("--out", type=Path, default=Path("results/gated-step.json"))
    options = parser.parse_args()
    began, rows = time.monotonic(), []
    for compiled in (True, False) if options.eager else (True,):
        for name, batch in CASES:
            if time.monotonic() - began < options.limit:
                rows.append(_measured(name, batch, compiled, options.rounds))
                print(json.dumps(rows[-1]), flush=True)
                _write(options, rows)


def _write(options: argparse.Namespace, rows: list[dict[str, object]]) -> None:
    command = f"python benchmarks/gated_step.py --rounds {options.rounds}" + (" --eager" if options.eager else "")
    title = "A gated training step on a GPU against a dense one"
    found = {"title": title, "command": command, "machine": machine(), "versions": versions(), "rows": rows}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")


def _measured(name: str, batch: int, compiled: bool, rounds: int) -> dict[str, object]:
    torch._dynamo.reset()
    memory = {way: _peak(way, name, batch, compiled) for way in WAYS if (name, batch) == CASES[0]}
    gated = sum(weight.numel() for weight in MODELS[name](num_classes=1000).parameters() if weight.dim() > 1)
    steps = {way: _step(way, name, batch, compiled) for way in WAYS}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds + 2):
        for way in WAYS if number % 2 else reversed(WAYS):
            times[way].append(_milliseconds(steps[way]))
    times = {way: each[2:] for way, each in times.items()}
    del steps
    _tidy()
    return {
        "network": name,
        "batch": batch,
        "compiled": compiled,
        "milliseconds": {way: round(statistics.median(each), 3) for way, each in times.items()},
        "ratio": {way: round(_ratio(times[way], times["dense"]), 4) for way in WAYS},
        "peak GiB": {way: round(each / 2**30, 3) for way, each in memory.items()},
        "bytes per gated weight": {way: round((each - memory["dense"]) / gated, 2) for way, each in memory.items()},
        "gated weights": gated,
    }


def _ratio(ours: list[float], dense: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, dense, strict=True))


def _peak(way: str, name: str, batch: int, compiled: bool) -> int:
    step = _step(way, name, batch, compiled)
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    del step
    _tidy()
    return peak


def _tidy() -> None:
    torch._dynamo.reset()  # compiled code keeps its model
    gc.collect()
    torch.cuda.empty_cache()


def _milliseconds(step: Callable[[], None]) -> float:
    step()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(STEPS):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / STEPS


def _step(way: str, name: str, batch: int, compiled: bool) -> Callable[[], None]:
    torch.manual_seed(0)
    model = MODELS[name](num_classes=1000).cuda().to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch,), device="cuda")
    optimizers = _optimizers(way, model)
    forward = torch.compile(model) if compiled else model

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(forward(images), labels)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return step


def _optimizers(way: str, model: nn.Module) -> list[torch.optim.Optimizer]:
    if way == "dense":
        return [torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY, fused=True)]
    sg.gate(model)
    if way == "apart":
        weights = torch.optim.SGD(sg.weights(model), lr=LR, momentum=MOMENTUM, weight_decay=DECAY, fused=True)
        return [weights, sg.GateSGD(model, lr=GATE_LR)]
    settings = {"lr": LR, "momentum": MOMENTUM, "weight_decay": DECAY, "gate_lr": GATE_LR}
    return [sg.GatedSGD(model, **settings, small=way == "small")]


if __name__ == "__main__":
    main()
