"""What a method is told between epochs: the truth, about the validation split."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from sparsegate_lab.data import load_data
from sparsegate_lab.method import Judge, Method, Training, scale_lr_
from sparsegate_lab.train import train


@dataclass(frozen=True)
class Curious(Method):
    """Makes a model that always says 3, and remembers what it is told about it."""

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        model.register_buffer("told", torch.zeros(0, 3))
        return model

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        images = judge.images(7)
        assert images.shape == (7, 1, 28, 28)
        assert judge.images(10**9).shape[0] == 900
        with torch.no_grad():
            model.fc1.weight.zero_()
            model.fc3.bias.copy_(torch.eye(10)[3] * 100)
        told = torch.tensor([[progress, judge.accuracy(), float(images.sum())]])
        model.told = torch.cat([model.told, told])

    def finish(self, model: nn.Module) -> nn.Module:
        seen.extend(model.told.tolist())
        del model.told
        return model


seen: list[list[float]] = []


def test_a_method_hears_the_validation_accuracy_of_the_model_as_it_is_now(small, digits, tmp_path):
    seen.clear()
    run = small(method=Curious())
    record = train(run, folder=tmp_path)
    data = load_data(str(digits))
    threes = 100 * float(
        (data.validation.labels == 3).double().mean()
    )  # what a model that always says 3 gets
    pixels = float(data.normalise(data.train.images[:7]).sum())
    assert seen[-2:] == [[0.5, pytest.approx(threes), pytest.approx(pixels)], [1.0, *seen[-1][1:]]]
    assert record.epochs[0].validation == pytest.approx(
        threes
    )  # measured after the method has had its say


@dataclass(frozen=True)
class Doubling(Method):
    """Doubles every gradient."""

    factor: float = 2.0

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        return model

    def optimizers(self, model: nn.Module, training: Training) -> list[Optimizer]:
        sgd = training.sgd(model.parameters())
        sgd.register_step_pre_hook(lambda *_: self._double(model))
        return [sgd]

    def before_step(self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float):
        scale_lr_(optimizers[0], 1 / self.factor)

    def _double(self, model: nn.Module) -> None:
        for parameter in model.parameters():
            parameter.grad.mul_(self.factor)

    def finish(self, model: nn.Module) -> nn.Module:
        return model


def test_a_method_may_change_gradients_and_the_learning_rate(small, tmp_path):
    twice = train(small(method=Doubling(2.0), weight_decay=0.0), folder=tmp_path)
    once = train(small(method=Doubling(1.0), weight_decay=0.0), folder=tmp_path)
    assert [epoch.loss for epoch in twice.epochs] == pytest.approx(
        [epoch.loss for epoch in once.epochs], rel=1e-4
    )
    assert dataclasses.replace(twice.epochs[0], loss=0.0) == dataclasses.replace(
        once.epochs[0], loss=0.0
    )
