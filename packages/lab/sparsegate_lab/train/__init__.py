"""Runs, and the loop that trains them."""

from .batches import Batches
from .checkpoint import Checkpoints
from .diverged import DivergedError
from .evaluate import accuracy, count_biases, count_layers, count_sizes
from .folder import RunFolder
from .malloc import keep_freed_memory
from .network import empty_network, fresh_network
from .network_input import augments_of, view_of
from .provenance import machine, versions
from .run import Run
from .seed import fold, generator
from .stop import Stop
from .teacher import Teacher
from .training import MemoryShortError, is_main_process, leave_group, train
from .watch import TensorBoard, Watcher, Watchers

__all__ = [
    "Batches",
    "Checkpoints",
    "DivergedError",
    "MemoryShortError",
    "Run",
    "RunFolder",
    "Stop",
    "Teacher",
    "TensorBoard",
    "Watcher",
    "Watchers",
    "accuracy",
    "augments_of",
    "count_biases",
    "count_layers",
    "count_sizes",
    "empty_network",
    "fold",
    "fresh_network",
    "generator",
    "is_main_process",
    "keep_freed_memory",
    "leave_group",
    "machine",
    "train",
    "versions",
    "view_of",
]
