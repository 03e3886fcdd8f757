"""Describes and trains runs."""

from .batches import Batches
from .checkpoint import Checkpoints
from .diverged import DivergedError
from .evaluate import accuracy, count_biases, count_layers, count_sizes
from .folder import BusyError, RunFolder
from .inputs import augments_of, normaliser_of
from .make_record import machine, make_record, versions
from .malloc import keep_freed_memory
from .network import empty_network, fresh_network
from .notebook_progress import NotebookProgress
from .run import Run
from .seed import fold, generator
from .stop import Stop
from .teacher import Teacher
from .tracker import Service, Tracker
from .train_run import MemoryShortError, is_main_process, leave_group, train
from .watch import TensorBoard, Watcher, Watchers
from .weights import finished_network

__all__ = [
    "Batches",
    "BusyError",
    "Checkpoints",
    "DivergedError",
    "MemoryShortError",
    "NotebookProgress",
    "Run",
    "RunFolder",
    "Service",
    "Stop",
    "Teacher",
    "TensorBoard",
    "Tracker",
    "Watcher",
    "Watchers",
    "accuracy",
    "augments_of",
    "count_biases",
    "count_layers",
    "count_sizes",
    "empty_network",
    "finished_network",
    "fold",
    "fresh_network",
    "generator",
    "is_main_process",
    "keep_freed_memory",
    "leave_group",
    "machine",
    "make_record",
    "normaliser_of",
    "train",
    "versions",
]
