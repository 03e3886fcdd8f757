"""One training by sparse_vd for a search: what `train` does, with the whole step as one CUDA graph."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from sparsegate_lab.data import Dataset
from sparsegate_lab.method import Judge, Training
from sparsegate_lab.methods import SparseVD
from sparsegate_lab.methods.sparse_vd import Noisy, divergence
from sparsegate_lab.train import (
    Batches,
    Run,
    augments_of,
    count_layers,
    fresh_network,
    normaliser_of,
)

WARM_UP = 3  # steps before the graph is recorded; training has so many more
SEEN = 10  # epochs between two looks at a network


class Silent(Judge):
    """Has no answers: sparse_vd asks no questions."""

    def accuracy(self) -> float:
        raise NotImplementedError

    def images(self, count: int) -> Tensor:
        raise NotImplementedError


class Trial:
    """A run on its way: everything that changes lies in tensors that the graph reads and writes."""

    # Differs from `train`: 1. noise comes from one stream, not from a seed for every step. 2. Adam
    # is the fused one.

    def __init__(self, run: Run[SparseVD], data: Dataset) -> None:
        self.run = run
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.validation, self.normalise = data.validation.to(device), normaliser_of(run, data)
        augments = augments_of(run)
        self.batches = Batches(
            data.train.to(device), self.normalise, augments, run.batch_size, run.seed
        )
        model, _ = fresh_network(run, data)
        model = run.method.prepare(model)
        self.model: nn.Module = model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.noisy = [each for each in self.model.modules() if isinstance(each, Noisy)]
        sgd, adam = self._optimizers()
        self.rest = sgd.param_groups[0]["params"]
        self.velocity = [torch.zeros_like(each) for each in self.rest]
        groups = adam.param_groups
        owned = [
            {"params": group["params"], "lr": torch.zeros((), device=device)} for group in groups
        ]
        self.adam = torch.optim.Adam(
            owned, lr=torch.zeros((), device=device), fused=True, capturable=device.type == "cuda"
        )
        self.plan = self._plan().to(device)
        self.images, self.labels = self._epoch(0)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)

    def row(self) -> dict[str, Any]:
        """Trains to the end and says what came of it."""
        began, seen = time.perf_counter(), []
        torch.manual_seed(self.run.seed)
        replay = self._recorded()
        for number in range(self.run.epochs):
            self._go(number, replay)
            if (number + 1) % SEEN == 0 or number + 1 == self.run.epochs:
                seen.append({"epoch": number + 1, **self._seen()})
        layers = {layer.name: layer.kept for layer in count_layers(self._finished())}
        seconds = round(time.perf_counter() - began, 1)
        return {
            "run": self.run.to_json(),
            **seen[-1],
            "layers": layers,
            "seen": seen,
            "seconds": seconds,
        }

    def _go(self, number: int, replay: Any) -> None:
        """One epoch; the noise ends with the first step that is in the quiet part of training."""
        images, labels = self._epoch(number)
        self.images.copy_(images)
        self.labels.copy_(labels)
        count, freeze = len(self.batches), self.run.method.freezes_at
        for index in range(count):
            progress = (number * count + index) / (self.run.epochs * count)
            if freeze is not None and freeze <= progress < freeze + 1 / (self.run.epochs * count):
                for each in self.noisy:
                    each.settle_()
            replay()

    def _optimizers(self) -> list[Optimizer]:
        run = self.run
        settings = (run.lr, run.momentum, run.weight_decay, run.epochs * len(self.batches))
        return run.method.optimizers(self.model, Training(*settings, judge=Silent()))

    def _plan(self) -> Tensor:
        """Of every step: the price for one image, and the learning rates of means, variances and all else."""
        run, count = self.run, self.run.epochs * len(self.batches)
        method, (sgd, adam), rows = run.method, self._optimizers(), []
        for progress in (step / count for step in range(count)):
            sgd.param_groups[0]["lr"] = run.lr
            method.before_step(self.model, [sgd, adam], progress)
            rates = [group["lr"] for group in adam.param_groups]
            rows.append(
                [
                    method.price_at(progress) / method.num_images,
                    *rates,
                    sgd.param_groups[0]["lr"],
                ]
            )
        return torch.tensor(rows)

    def _epoch(self, number: int) -> tuple[Tensor, Tensor]:
        images, labels = zip(*self.batches.epoch(number), strict=True)
        return torch.stack(images), torch.stack(labels)

    def _recorded(self) -> Any:
        """Something to call for a step."""
        self.model.train()
        if not torch.cuda.is_available():
            return self._step
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.step.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        return graph.replay

    def _step(self) -> None:
        for each in self.model.parameters():
            each.grad = None
        place = self.step % len(self.batches)
        price, means, variances, rest = self.plan.index_select(0, self.step)[0].unbind()
        images, labels = (
            self.images.index_select(0, place)[0],
            self.labels.index_select(0, place)[0],
        )
        (F.cross_entropy(self.model(images), labels) + price * divergence(self.noisy)).backward()
        for group, lr in zip(self.adam.param_groups, (means, variances), strict=True):
            group["lr"].copy_(lr)
        self.adam.step()
        with torch.no_grad():
            for each, velocity in zip(self.rest, self.velocity, strict=True):
                assert each.grad is not None
                velocity.mul_(self.run.momentum).add_(each.grad + self.run.weight_decay * each)
                each.sub_(rest * velocity)
        self.step.add_(1)

    def _finished(self) -> nn.Module:
        return self.run.method.finish(copy.deepcopy(self.model)).eval()

    @torch.no_grad()
    def _seen(self) -> dict[str, Any]:
        model = self._finished()
        right = (
            (model(self.normalise(self.validation.images)).argmax(1) == self.validation.labels)
            .float()
            .mean()
        )
        return {
            "kept": sum(layer.kept for layer in count_layers(model)),
            "validation": round(100 * right.item(), 2),
        }
