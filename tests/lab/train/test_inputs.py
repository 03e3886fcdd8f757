"""Images lie on the device if they fit there."""

import torch

from sparsegate_lab.data import Dataset, Split
from sparsegate_lab.train.inputs import fetch_device, splits_of, to_device


def test_on_a_cpu_images_stay_where_they_are_and_batches_are_not_fetched():
    split = Split(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
    splits = to_device(splits_of(Dataset(split, split, split)), torch.device("cpu"))
    assert list(splits) == ["train", "validation", "test"]
    assert splits["train"].images.data_ptr() == split.images.data_ptr()
    assert fetch_device(splits["train"], torch.device("cpu")) is None


def test_batches_are_fetched_for_a_device_where_the_images_are_not():
    split = Split(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
    assert fetch_device(split, torch.device("cuda", 1)) == torch.device("cuda", 1)
