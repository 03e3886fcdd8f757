"""Where the images of a run lie: on its device if they fit, else beside it."""

from __future__ import annotations

import torch

from sparsegate_lab.data import Dataset, Split

SHARE = 0.5  # of a GPU's free memory that images may take


def placed(data: Dataset, device: torch.device) -> dict[str, Split]:
    """The splits by name, on the device if all of them fit into half of what is free there."""
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    if device.type == "cuda" and data.num_bytes > SHARE * torch.cuda.mem_get_info(device)[0]:
        return splits
    return {name: split.to(device) for name, split in splits.items()}


def elsewhere(split: Split, device: torch.device) -> torch.device | None:
    """The device, if the images are not there."""
    return None if split.labels.device.type == device.type else device
