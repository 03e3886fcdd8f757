"""Runs, and the loop that trains them."""

from .batches import Batches
from .evaluate import accuracy, count_biases, count_layers
from .folder import RunFolder
from .launch import is_main_process, leave_group, train
from .loop import DivergedError
from .network import empty_network
from .provenance import machine, versions
from .run import Run
from .teacher import Teacher
from .watch import TensorBoard, Watcher, Watchers

__all__ = [
    "Batches",
    "DivergedError",
    "Run",
    "RunFolder",
    "Teacher",
    "TensorBoard",
    "Watcher",
    "Watchers",
    "accuracy",
    "count_biases",
    "count_layers",
    "empty_network",
    "is_main_process",
    "leave_group",
    "machine",
    "train",
    "versions",
]
