"""Datasets by name, and readers for the user's own."""

from __future__ import annotations

from sparsegate.export import Normalise

from .augment import Augment, Erase, Flip, Jitter, RandomCrop, Shift
from .crop import IMAGENET, Fit
from .dataset import Dataset, Split
from .elastic import Elastic
from .folder import read_image_folder
from .gpu_augment import can_change_fast, changed_in_one_pass, changes_of
from .idx import read_idx_folder
from .load import DATASETS, load_data
from .maps import hash_of_images, load_or_compute
from .mnist import mnist
from .photos import Storing

__all__ = [
    "DATASETS",
    "IMAGENET",
    "Augment",
    "Dataset",
    "Elastic",
    "Erase",
    "Fit",
    "Flip",
    "Jitter",
    "Normalise",
    "RandomCrop",
    "Shift",
    "Split",
    "Storing",
    "can_change_fast",
    "changed_in_one_pass",
    "changes_of",
    "hash_of_images",
    "load_data",
    "load_or_compute",
    "mnist",
    "read_idx_folder",
    "read_image_folder",
]
