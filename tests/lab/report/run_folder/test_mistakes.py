"""Mistakes are counted by label and answer, and some of their images are shown."""

import numpy as np
import torch
from torch import nn

from sparsegate_lab.data import Dataset, Split
from sparsegate_lab.report.run_folder.mistakes import mistakes_of


class First(nn.Module):
    """Answers with the brightest of the first three pixels."""

    def forward(self, images):
        return images.flatten(1)[:, :3]


def data_of(answers, labels, side=4):
    images = torch.zeros(len(answers), 1, side, side, dtype=torch.uint8)
    for place, answer in enumerate(answers):
        images[place, 0, 0, answer] = 200
        images[place, 0, 3, 3] = place
    split = Split(images, torch.tensor(labels))
    return Dataset(split, split, split, class_names=("a", "b", "c"))


def test_labels_and_answers_are_counted():
    found = mistakes_of(First(), data_of([0, 1, 1, 2, 0], [0, 1, 2, 2, 2]))
    assert found.counts == ((1, 0, 0), (0, 1, 0), (1, 1, 1))
    assert [(one.label, one.answer) for one in found.images] == [("c", "b"), ("c", "a")]
    pixels = np.frombuffer(found.images[1].pixels, np.uint8).reshape(4, 4)
    assert pixels[0, 0] == 200
    assert pixels[3, 3] == 4


def test_large_images_are_not_counted():
    assert mistakes_of(First(), data_of([0, 1, 2], [0, 1, 2], side=65)) is None


def test_a_network_without_mistakes_has_no_images():
    assert mistakes_of(First(), data_of([0, 1, 2], [0, 1, 2])).images == ()
