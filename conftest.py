"""Tests check the shapes and types in every signature of the package."""

import os
import random
import warnings
import zlib
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook(["sparsegate_runtime", "sparsegate", "sparsegate_lab"], "beartype.beartype")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton's kernels run in its interpreter
collect_ignore_glob = ["tests/scripts/*"] + (
    [] if find_spec("triton") else ["packages/**/*kernels.py"]
)
collect_ignore_glob += [
    f"packages/**/integrations/{name}*"
    for name in ("transformers", "lightning")
    if not find_spec(name)
]
torch.set_num_threads(1)  # many small tensors; and two processes share the cores in some tests
SEED = os.environ.get("SPARSEGATE_SEED")
"""Unset, every run of the tests draws the same cases; `make test-random` sets it and prints it."""
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("random" if SEED else "repeatable")

LONG = (
    "test_several_processes",
    "test_shard",
    "test_compile",
    "test_resume",
    "test_methods",
    "test_to_c",
)
"""Files with few, long tests, which run first: run last, they would keep one process busy alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the long files first and keeps the order of all others."""
    items.sort(key=lambda item: item.path.stem not in LONG)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Random numbers depend on the test and on SEED only, not on the tests before it."""
    seed = zlib.crc32(f"{SEED or ''}{item.nodeid}".encode())
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
