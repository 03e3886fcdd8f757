"""One run of benchmarks/pairs.py, and processes that share the runs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any

import torch
from pair_tasks import TASKS, Splits, Task
from torch import Tensor, nn

from sparsegate import Target
from sparsegate_lab.method import Judge, Method, Training
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.recipes import CONTESTANTS
from sparsegate_lab.train import count_layers

DENSE, OURS = "dense", "learned_gates"
MOMENTUM, DECAY = 0.9, 1e-4
WARM = 20  # the learning rate rises during the first twentieth of the training


@dataclass(frozen=True)
class Job:
    """One run of a pair."""

    pair: str
    data: Path
    method: str
    keep: float
    seed: int
    device: str

    def make(self) -> Method:
        """The method, with its defaults; gates only where all methods can prune."""
        if self.method == DENSE:
            return Dense()
        if self.method != OURS:
            return CONTESTANTS[self.method](self.keep)
        return LearnedGates(target=Target(keep=self.keep), only=TASKS[self.pair].prunable)


@dataclass(frozen=True)
class Adam(Training):
    """Settings of a run whose weights are trained by AdamW."""

    def sgd(self, parameters: Iterable[nn.Parameter]) -> Any:
        """AdamW, which methods call by the name of the usual optimizer."""
        return torch.optim.AdamW(list(parameters), lr=self.lr, weight_decay=0.01)


@dataclass(frozen=True)
class Scores(Judge):
    """Scores of a network on the splits of a task."""

    task: Task
    splits: Splits
    model: nn.Module

    def accuracy(self) -> float:
        """Accuracy on the validation split, for methods that ask."""
        return self.of(self.model, "validation")

    def images(self, count: int) -> Tensor:
        """The first training inputs."""
        return self.splits["train"][0][:count]

    @torch.no_grad()
    def of(self, model: nn.Module, split: str) -> float:
        """Accuracy in per cent, or bits per label."""
        was_training = model.training
        model.eval()
        found = 0.0
        inputs, labels = self.splits[split]
        for some, wanted in zip(inputs.split(500), labels.split(500), strict=True):
            logits = model(some)
            if self.task.bits:
                found += float(self.task.loss(logits, wanted)) * wanted.numel() / math.log(2)
            else:
                found += 100.0 * int((logits.argmax(-1) == wanted).sum())
        model.train(was_training)
        return found / labels.numel()


def in_processes(jobs: list[Job], count: int, limit: float) -> Iterator[dict[str, Any]]:
    """The rows of all runs that can be begun within the limit, as they end."""
    context = get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    for job in jobs:
        todo.put(job)
    until = time.time() + limit
    workers = [
        context.Process(target=_work, args=(todo, done, until), daemon=True) for _ in range(count)
    ]
    for each in workers:
        each.start()
    while any(each.is_alive() for each in workers) or not done.empty():
        try:
            yield done.get(timeout=1)
        except Empty:
            continue


def _work(todo: Any, done: Any, until: float) -> None:
    """Makes runs until none is left or the time is up."""
    torch.set_num_threads(1)
    longest = 0.0
    while time.time() + longest < until:
        try:
            job = todo.get(timeout=1)
        except Empty:
            return
        began = time.time()
        done.put({**_named(job), **trained(job)})
        longest = max(longest, time.time() - began)


def _named(job: Job) -> dict[str, Any]:
    """The fields of a job that name it in the record."""
    named = asdict(job)
    return {part: named[part] for part in ("pair", "method", "keep", "seed")}


@cache
def splits_of(pair: str, data: Path, device: str) -> Splits:
    """The data of a pair on its device."""
    found = TASKS[pair].read(data)
    return {
        name: (inputs.to(device), labels.to(device)) for name, (inputs, labels) in found.items()
    }


def trained(job: Job) -> dict[str, Any]:
    """Trains and measures one network."""
    task, splits = TASKS[job.pair], splits_of(job.pair, job.data, job.device)
    method = job.make()
    torch.manual_seed(job.seed)
    began, (inputs, labels) = time.time(), splits["train"]
    model = method.prepare(task.make().to(job.device)).to(job.device)
    per_epoch = len(inputs) // task.batch
    steps, scores = task.epochs * per_epoch, Scores(task, splits, model)
    kind = Adam if task.adam else Training
    optimizers = method.optimizers(model, kind(task.lr, MOMENTUM, DECAY, steps, scores))
    order, step = torch.Generator().manual_seed(job.seed), 0
    for _ in range(task.epochs):
        model.train()
        mixed = torch.randperm(len(inputs), generator=order)[: per_epoch * task.batch]
        for batch in mixed.to(job.device).split(task.batch):
            for group in optimizers[0].param_groups:
                group["lr"] = task.lr * min(1.0, WARM * (step + 1) / steps)
            method.before_step(model, optimizers, step / steps)
            loss = task.loss(model(inputs[batch]), labels[batch])
            term = method.loss_term(model, step / steps)
            (loss if term is None else loss + term).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            method.after_step(model, step / steps)
            step += 1
        method.after_epoch(model, scores, step / steps)
    model = method.finish(model)
    layers = [layer for layer in count_layers(model) if task.is_prunable(layer.name)]
    return {
        "kept": sum(layer.kept for layer in layers),
        "total": sum(layer.total for layer in layers),
        **{split: round(scores.of(model, split), 4) for split in ("validation", "test")},
        "seconds": round(time.time() - began, 1),
        "settings": repr(method),
    }
