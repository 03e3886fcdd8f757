"""Seeds for every moment of a run, each a function of the run's one seed."""

from __future__ import annotations

import hashlib

import torch


def fold(seed: int, *moment: int | str) -> int:
    """A seed for a moment, such as ("step", 17): unrelated to those of other moments, the same every time.

    >>> fold(0, "step", 17) == fold(0, "step", 17) != fold(0, "step", 18)
    True
    """
    digest = hashlib.blake2b(repr((seed, *moment)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # torch takes seeds below 2^63


def generator(seed: int, *moment: int | str) -> torch.Generator:
    """A random generator for a moment, on the CPU, so that it draws the same on every machine."""
    return torch.Generator().manual_seed(fold(seed, *moment))


def seed_(seed: int, device: torch.device) -> None:
    """Seeds what draws on the CPU and on a device, in place."""
    if device.type == "cpu":
        # torch.manual_seed leaves a note for every kind of GPU that there might be, in tenths of a millisecond.
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
