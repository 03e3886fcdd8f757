"""The MNIST digits, bundled with the package."""

from __future__ import annotations

import hashlib
import lzma
from functools import cache
from importlib import resources

from jaxtyping import UInt8
from torch import Tensor

from .dataset import Dataset
from .idx import make_split, parse_idx

MD5 = {  # of the original files, decompressed
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


@cache
def mnist() -> Dataset:
    """MNIST: 55,000 digits for training, 5,000 for validation, 10,000 for the test."""
    train, test = (
        make_split(
            _bundled(f"{stem}-images-idx3-ubyte"), _bundled(f"{stem}-labels-idx1-ubyte"), stem
        )
        for stem in ("train", "t10k")
    )
    return Dataset.divided(train, test)


def _bundled(name: str) -> UInt8[Tensor, "..."]:
    packed = resources.files("sparsegate_lab.data").joinpath("bundled", f"{name}.xz").read_bytes()
    return parse_idx(checked(packed, name), name)


def checked(packed: bytes, name: str) -> bytes:
    """The decompressed bytes of a bundled file; raises if they are not the original ones."""
    try:
        raw = lzma.decompress(packed)
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(
            f"the bundled {name} is damaged ({error}); install sparsegate again"
        ) from error
    if hashlib.md5(raw, usedforsecurity=False).hexdigest() != MD5[name]:
        raise ValueError(f"the bundled {name} is not the original file; install sparsegate again")
    return raw
