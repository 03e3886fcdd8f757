"""Keeps what frozen layers give for each image in a file that is mapped into memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float16, UInt8
from torch import Tensor

from .cache_folder import cache_folder, check_space, filling, mapped, replacing

VERSION = 1  # of the file's format; a new version computes all maps again
WHAT = "the outputs of the front"
BLOCK = 1024  # images that are hashed at a time


def load_or_compute(
    key: str, shape: tuple[int, ...], compute: Callable[[], Iterator[Float16[Tensor, "..."]]]
) -> Float16[Tensor, "..."]:
    """The maps of a file in the cache, computed and written if there is none.

    The file exists complete or not at all. If several processes need it, one writes it and the
    others wait.

    Args:
        key: A text that changes if any number of the maps changes.
        shape: The shape of all maps together.
        compute: Gives the maps in parts, in their order.
    """
    folder = cache_folder()
    name = hashlib.blake2b(f"{VERSION} {shape} {key}".encode(), digest_size=12).hexdigest()
    path = folder / f"{name}.maps"
    if not path.exists():
        with filling(folder, name, WHAT, f"computing {WHAT}"):
            if not path.exists():  # another process may have written it
                check_space(folder, torch.Size(shape).numel() * torch.float16.itemsize, WHAT)
                with replacing(path) as partial, partial.open("wb") as file:
                    for part in compute():
                        file.write(part.contiguous().numpy().data)
    return mapped(path, shape, torch.float16, "compute them")


def hash_of_images(images: UInt8[Tensor, "image *shape"]) -> str:
    """A hash of all images, which are on the CPU."""
    digest = hashlib.blake2b(str(tuple(images.shape)).encode(), digest_size=16)
    for begin in range(0, len(images), BLOCK):
        digest.update(images[begin : begin + BLOCK].contiguous().numpy().data)
    return digest.hexdigest()
