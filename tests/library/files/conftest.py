"""Equality to the bit, and ways to store a network and get it back."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sparsegate.files import compress, load


@pytest.fixture(scope="session")
def same_bits() -> Callable[[Tensor, Tensor], bool]:
    """Whether two tensors have the same type, shape and bits: NaNs are equal to themselves, -0.0 is not 0.0."""

    def equal(left: Tensor, right: Tensor) -> bool:
        if (left.dtype, left.shape) != (right.dtype, right.shape):
            return False
        bits = (each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (left, right))
        return torch.equal(*bits)

    return equal


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all examples of one property write to."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="session")
def through_a_file(scratch: Path) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """What a file gives back of a state dict."""

    def stored(state: dict[str, Tensor]) -> dict[str, Tensor]:
        path = scratch / "through.sparse.safetensors"
        compress(state).save(path)
        return load(path).state_dict()

    return stored


@pytest.fixture(scope="session")
def unsigned():
    """Takes the checksum out of a file, so that what is behind it notices the damage."""

    def change(content: bytes) -> bytes:
        return re.sub(rb',"crc32":"[0-9a-f]{8}"', lambda found: b" " * len(found[0]), content)

    return change
