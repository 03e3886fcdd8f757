"""Runs, and the loop that trains them."""

from .batches import Batches
from .checkpoint import Checkpoints
from .evaluate import accuracy, count_biases, count_layers
from .folder import RunFolder
from .heap import keep_freed_memory
from .launch import is_main_process, leave_group, train
from .loop import DivergedError
from .network import empty_network, fresh_network
from .provenance import machine, versions
from .run import Run
from .seed import fold
from .watch import TensorBoard, Watcher, Watchers

__all__ = [
    "Batches",
    "Checkpoints",
    "DivergedError",
    "Run",
    "RunFolder",
    "TensorBoard",
    "Watcher",
    "Watchers",
    "accuracy",
    "count_biases",
    "count_layers",
    "empty_network",
    "fold",
    "fresh_network",
    "is_main_process",
    "keep_freed_memory",
    "leave_group",
    "machine",
    "train",
    "versions",
]
