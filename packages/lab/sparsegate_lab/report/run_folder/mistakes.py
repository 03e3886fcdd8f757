"""Counts what a network takes test images for, and shows some that it takes for another class."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sparsegate_lab.data import Dataset, Split

from ..network_view import Mistakes, WrongImage

MOST_CLASSES = 20
MOST_SIDE = 64
"""Pixels of an image that is shown."""
NUM_IMAGES = 24
BATCH = 512


def mistakes_of(model: nn.Module, data: Dataset) -> Mistakes | None:
    """What the model answers for the test images; None for many classes or large images."""
    _, height, width = data.image_shape
    if data.num_classes > MOST_CLASSES or max(height, width) > MOST_SIDE or not len(data.test):
        return None
    answers, labels = answered(model, data), data.test.labels.long()
    places = labels * data.num_classes + answers
    counts = torch.bincount(places, minlength=data.num_classes**2)
    names = data.class_names or tuple(map(str, range(data.num_classes)))
    wrong = (answers != labels).nonzero().flatten()
    chosen = wrong[torch.linspace(0, len(wrong) - 1, min(len(wrong), NUM_IMAGES)).long()]
    images = tuple(
        _image(data.test, place, names[int(labels[place])], names[int(answers[place])])
        for place in chosen.tolist()
    )
    rows = counts.view(data.num_classes, -1).tolist()
    return Mistakes(names, tuple(tuple(row) for row in rows), images)


@torch.no_grad()
def answered(model: nn.Module, data: Dataset) -> Tensor:
    """The class that the model gives each test image."""
    model.eval()
    batches = torch.split(data.test.images, BATCH)
    return torch.cat([model(data.normalise(batch)).argmax(1) for batch in batches])


def _image(split: Split, place: int, label: str, answer: str) -> WrongImage:
    pixels = split.images[place]
    last = pixels.permute(1, 2, 0).contiguous()
    return WrongImage(label, answer, last.shape[0], last.shape[1], bytes(last.numpy().tobytes()))
