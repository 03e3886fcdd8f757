"""The library's verbs of the `sparsegate` command: inspect, compress, bench and export."""

from sparsegate_runtime.command import main

from .source import AccuracyCheck, ExampleInputs, Source, read_network

__all__ = ["AccuracyCheck", "ExampleInputs", "Source", "main", "read_network"]
