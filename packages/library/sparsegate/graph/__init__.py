"""Captures a model as a graph, follows its units, and makes it smaller."""

from .capture import Example, arguments_of, capture, check_runs, evaluating, unchecked
from .deadpaths import Removed, is_same, remove_dead_paths, removed_from
from .graph import Graph
from .linear_readers import linear_readers
from .node import (
    AdaptivePool,
    Constant,
    Conv,
    Input,
    Layer,
    Linear,
    Mean,
    Node,
    Norm,
    Other,
    Pad,
    Pointwise,
    Pool,
    Reshape,
    Slice,
)
from .order import order_units_
from .outputs import outputs, tensors_in
from .own_copy import copied
from .shrink import shrink
from .units import Follow, Units, layer_name

__all__ = [
    "AdaptivePool",
    "Constant",
    "Conv",
    "Example",
    "Follow",
    "Graph",
    "Input",
    "Layer",
    "Linear",
    "Mean",
    "Node",
    "Norm",
    "Other",
    "Pad",
    "Pointwise",
    "Pool",
    "Removed",
    "Reshape",
    "Slice",
    "Units",
    "arguments_of",
    "capture",
    "check_runs",
    "copied",
    "evaluating",
    "is_same",
    "layer_name",
    "linear_readers",
    "order_units_",
    "outputs",
    "remove_dead_paths",
    "removed_from",
    "shrink",
    "tensors_in",
    "unchecked",
]
