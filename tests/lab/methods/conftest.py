"""Judges for methods that are tested without a training loop."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from sparsegate_lab.method import Judge, Training


class Silent(Judge):
    """Has nothing to say: for methods that must not ask."""

    def accuracy(self) -> float:
        raise AssertionError("asked for an accuracy")

    def images(self, count: int) -> Tensor:
        raise AssertionError("asked for images")


class OnImages(Judge):
    """Judges a model by how often it agrees with given labels on given images."""

    def __init__(self, model: nn.Module, images: Tensor, labels: Tensor) -> None:
        self._model, self._images, self._labels = model, images, labels
        self.asked = 0

    @torch.no_grad()
    def accuracy(self) -> float:
        self.asked += 1
        return 100 * float((self._model(self._images).argmax(1) == self._labels).double().mean())

    def images(self, count: int) -> Tensor:
        return self._images[:count]


@pytest.fixture
def silent() -> Judge:
    """A judge that must not be asked."""
    return Silent()


@pytest.fixture
def training(silent: Judge) -> Training:
    """The settings of a run of a hundred steps, with lr=0.1."""
    return Training(lr=0.1, momentum=0.9, weight_decay=0.0, steps=100, judge=silent)


@pytest.fixture
def judge_on() -> Callable[[nn.Module, Tensor, Tensor], OnImages]:
    """A judge of a model by images and labels."""
    return OnImages
