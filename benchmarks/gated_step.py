"""A gated training step on a GPU against a dense one: time and memory of every way to move weights and gates.

    python benchmarks/gated_step.py --out results/gated-step.json

Both compiled, bfloat16 autocast, channels-last, images of 224 x 224 on the device. Every way is a
process of its own, so that its peak of memory is its own; they take turns, ten steps at a time, and
the ratio is the median of the rounds' ratios. *apart* is the plain API (SGD and GateSGD),
*together* GatedSGD, *small* GatedSGD with gates in 16 bits. *Replayed* is the whole step in a CUDA
graph: what it takes when Python costs nothing. The processor's time in the optimizer is the median
of ten calls, which do not wait for the GPU. Memory is the peak of a step less that of the dense
one, by gated weight.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate_lab.models import MODELS
from sparsegate_lab.train import machine, versions

CASES = (("alexnet-torchvision", 128), ("vgg16", 256), ("vgg16", 64), ("alexnet-torchvision", 512))
WAYS = ("dense", "apart", "together", "small")
STEPS = 10
PATIENCE = 300  # seconds, for a compiler
LR, MOMENTUM, DECAY, GATE_LR = 0.01, 0.9, 1e-4, 1.0
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Worker:
    """One way of one case, in a process of its own that waits for its turn."""

    process: BaseProcess
    line: Connection

    @classmethod
    def begin(cls, *setting: Any) -> Worker:
        """Starts a process, which builds and compiles."""
        spawn = get_context("spawn")
        line, theirs = spawn.Pipe()
        process = spawn.Process(target=serve, args=(theirs, *setting), daemon=True)
        process.start()
        theirs.close()  # so that the line ends when the process does
        return cls(process, line)

    def asked(self, what: str) -> Any:
        """The answer to a question."""
        self.line.send(what)
        if not self.line.poll(PATIENCE):
            raise TimeoutError(f"{what}: no answer in {PATIENCE} s")
        return self.line.recv()

    def end(self) -> None:
        """Gives the memory back."""
        self.process.kill()  # waiting for the compiler's own processes takes ten seconds
        self.process.join()


def serve(line: Connection, way: str, name: str, batch: int, compiled: bool) -> None:
    """Answers with milliseconds, or with bytes."""
    spent: deque[float] = deque(maxlen=STEPS)
    step = training(way, name, batch, compiled, spent)
    for _ in range(3):
        patiently(step)
    settle()
    answers: dict[str, Callable[[], Any]] = {
        "ready": lambda: True,
        "milliseconds": lambda: milliseconds(step),
        "peak": lambda: peak(step),
        "optimiser": lambda: statistics.median(spent) * 1e6,
        "replayed": lambda: milliseconds(replayed(step)),
    }
    while True:
        line.send(answers[line.recv()]())
        settle()


def patiently(step: Callable[[], object]) -> None:
    """A step, when there is room for it beside the others that are being built."""
    for _ in range(PATIENCE):
        try:
            step()
            return
        except torch.OutOfMemoryError:
            settle()
            time.sleep(1)


def settle() -> None:
    """Leaves the memory of activations to those whose turn it is."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def training(
    way: str, name: str, batch: int, compiled: bool, spent: deque[float]
) -> Callable[[], None]:
    """A training step on a batch that is already there.

    Notes what Python spends in the optimizers, in seconds.
    """
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = MODELS[name](num_classes=1000).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(batch, *model.image_shape, device=DEVICE).to(
        memory_format=torch.channels_last
    )
    labels = torch.randint(1000, (batch,), device=DEVICE)
    optimizers = optimizers_of(way, model)
    forward = torch.compile(model, dynamic=False) if compiled else model

    def step() -> None:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.cross_entropy(forward(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        began = time.perf_counter()
        for optimizer in optimizers:
            optimizer.step()
        spent.append(time.perf_counter() - began)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)

    return step


def optimizers_of(way: str, model: nn.Module) -> list[torch.optim.Optimizer]:
    """What moves weights and gates; puts gates on, unless the way is dense."""
    if way == "dense":
        return [
            torch.optim.SGD(
                model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY, fused=True
            )
        ]
    sg.gate(model)
    if way == "apart":
        weights = torch.optim.SGD(
            sg.weights(model), lr=LR, momentum=MOMENTUM, weight_decay=DECAY, fused=True
        )
        return [weights, sg.GateSGD(model, lr=GATE_LR)]
    small = way == "small"
    return [
        sg.GatedSGD(
            model, lr=LR, momentum=MOMENTUM, weight_decay=DECAY, gate_lr=GATE_LR, small=small
        )
    ]


def milliseconds(step: Callable[[], object]) -> float:
    """Of one step, out of ten."""
    step()
    if DEVICE == "cpu":
        began = time.perf_counter()
        step()
        return (time.perf_counter() - began) * 1e3
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(STEPS):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / STEPS


def peak(step: Callable[[], object]) -> int:
    """Bytes, the most at any moment of a step."""
    if DEVICE == "cpu":
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def replayed(step: Callable[[], object]) -> Callable[[], object]:
    """The whole step as one launch."""
    if DEVICE == "cpu":
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    return graph.replay


def measured(
    workers: dict[str, Worker], name: str, batch: int, compiled: bool, rounds: int
) -> dict[str, Any]:
    """One case: all ways in turn."""
    row: dict[str, Any] = {"network": name, "batch": batch, "compiled": compiled}
    row |= compared([in_turn(workers, "milliseconds", number) for number in range(rounds + 1)][1:])
    spent = in_turn(workers, "optimiser", 0)
    row["microseconds of the processor in the optimizer"] = {
        way: round(each) for way, each in spent.items()
    }
    if (name, batch) != CASES[0]:
        return row
    gated = sum(
        weight.numel() for weight in MODELS[name](num_classes=1000).parameters() if weight.dim() > 1
    )
    peaks = in_turn(workers, "peak", 0)
    row["peak GiB"] = {way: round(each / 2**30, 3) for way, each in peaks.items()}
    row["bytes per gated weight"] = {
        way: round((each - peaks["dense"]) / gated, 2) for way, each in peaks.items()
    }
    row["gated weights"] = gated
    try:
        row["replayed"] = compared([in_turn(workers, "replayed", 0)])
    except EOFError:
        row["replayed"] = None  # not every step can be captured
    return row


def in_turn(workers: dict[str, Worker], what: str, number: int) -> dict[str, Any]:
    """Everybody's answer, forwards and backwards by turns."""
    return {way: workers[way].asked(what) for way in (WAYS if number % 2 else reversed(WAYS))}


def compared(rounds: list[dict[str, float]]) -> dict[str, Any]:
    """Medians, and the medians of ratios within a round."""
    ratios = {way: [each[way] / each["dense"] for each in rounds] for way in WAYS}
    return {
        "milliseconds": {
            way: round(statistics.median(each[way] for each in rounds), 3) for way in WAYS
        },
        "ratio": {way: round(statistics.median(each), 4) for way, each in ratios.items()},
        "lowest and highest ratio": {
            way: [round(min(each), 4), round(max(each), 4)] for way, each in ratios.items()
        },
    }


def write(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """All that is known so far."""
    flags = " --eager" * options.eager + " --at-once" * options.at_once
    found = {
        "title": "A gated training step on a GPU against a dense one",
        "command": f"python benchmarks/gated_step.py --rounds {options.rounds}{flags}",
        "machine": machine(),
        "versions": versions(),
        "rows": rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds after which no further case begins"
    )
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument(
        "--at-once", action="store_true", help="build all cases at the same time, on many cores"
    )
    parser.add_argument("--out", type=Path, default=Path("results/gated-step.json"))
    options = parser.parse_args()
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    began, rows, compiled = time.monotonic(), [], not options.eager
    begun = {case: begin(case, compiled) for case in CASES if options.at_once}
    for workers in begun.values():
        ready(workers)  # nobody is timed while others are being built
    print(f"{time.monotonic() - began:.0f} s begun", flush=True)
    for case in CASES:
        workers = begun.get(case) or begin(case, compiled)
        if time.monotonic() - began < options.limit and ready(workers):
            rows.append(measured(workers, *case, compiled, options.rounds))
            print(f"{time.monotonic() - began:.0f} s {json.dumps(rows[-1])}", flush=True)
            write(options, rows)
        for worker in workers.values():
            worker.end()


def begin(case: tuple[str, int], compiled: bool) -> dict[str, Worker]:
    """A worker for every way."""
    return {way: Worker.begin(way, *case, compiled) for way in WAYS}


def ready(workers: dict[str, Worker]) -> bool:
    """Whether all have been built."""
    try:
        return all(worker.asked("ready") for worker in workers.values())
    except (EOFError, BrokenPipeError):
        print("a worker has died", flush=True)
        return False


if __name__ == "__main__":
    main()
