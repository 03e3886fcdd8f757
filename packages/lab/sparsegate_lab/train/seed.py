"""Derives a seed for every moment of a run from the run's seed."""

from __future__ import annotations

import hashlib

import torch


def fold(seed: int, *moment: int | str) -> int:
    """A seed for a moment, such as ("step", 17), that is independent of all others.

    >>> fold(0, "step", 17) == fold(0, "step", 17) != fold(0, "step", 18)
    True
    """
    digest = hashlib.blake2b(repr((seed, *moment)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # torch takes seeds below 2^63


def generator(seed: int, *moment: int | str) -> torch.Generator:
    """A random generator for a moment, on the CPU, where all machines draw the same numbers."""
    return torch.Generator().manual_seed(fold(seed, *moment))


def seed_(seed: int, device: torch.device) -> None:
    """Seeds the generators of the CPU and of a device, in place."""
    if device.type == "cpu":
        # torch.manual_seed also visits every kind of GPU, which takes tenths of a millisecond.
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
