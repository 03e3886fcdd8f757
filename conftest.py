"""Tests check the shapes and types in every signature of the package."""

import warnings

from jaxtyping import install_import_hook

install_import_hook("sparsegate", "beartype.beartype")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch

torch.set_num_threads(1)  # many small tensors; and two processes share the cores in some tests
