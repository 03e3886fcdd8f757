"""The attack on fast networks: drawn ones equal float64, whatever else is in the batch."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn

import sparsegate as sg

from .attack import FAULT, Attack
from .drawn_models import drawn_model

TOLERANCE = 1e-4
"""Largest difference from float64, relative to the largest output of the image."""
KERNELS = (None, "chain", "csr", "dense", "packed", "winograd", "winograd8")
UNSUITABLE = ("none of the model's layers can run by", "the model has no Linear or Conv2d that")
"""How the refusal of a kernel begins that no layer suits; leaving it out always works."""
HOSTILE = ("nan", "one nan", "inf", "-inf", "1e38", "large")


class Networks(Attack):
    """Draws a network, its sparsity, its batch and the kernel.

    Compares with float64 and with itself.
    """

    title = "drawn networks against float64, with hostile neighbors in the batch"
    share = 4.0
    patience = 120.0

    def prepare(self, folder: Path) -> None:
        """One thread: networks are small."""
        torch.set_num_threads(1)

    @torch.no_grad()
    def attempt(self, draw: Random) -> str:
        """Runs a network on a harmless batch and on one with hostile images."""
        torch.manual_seed(draw.randrange(2**31))
        model, shape = drawn_model(draw)
        sparsify_(model, draw)
        count = draw.choice((1, 2, 3, 4, 5, 7, 8, 16, 17, 33))
        images = torch.randn(count, *shape)
        try:
            fast = made_sparse(model, images, draw.sample(KERNELS, len(KERNELS)))
        except ValueError as error:
            return "refused" if str(error) else f"{FAULT}an error without words"
        got = fast(images)
        wanted = copy.deepcopy(model).double()(images.double())
        if got.shape != wanted.shape:
            return f"{FAULT}shape {tuple(got.shape)} for {tuple(wanted.shape)}"
        if (off := distance(got, wanted)) > TOLERANCE:
            return (
                f"{FAULT}differs from float64 by more than {TOLERANCE}"
                if off < 1
                else f"{FAULT}differs from float64 altogether"
            )
        changed, others = with_hostile(images, draw)
        if not others:
            return "right"
        again = fast(changed)[others]
        if not torch.equal(bits(again), bits(got[others])):
            return f"{FAULT}hostile images changed others of their batch"
        return "right, also with hostile neighbors"


@torch.no_grad()
def sparsify_(model: nn.Module, draw: Random) -> None:
    """Zeros in every weight, in place."""
    for each in model.parameters():
        if each.ndim > 1:
            each.mul_(torch.rand(each.shape) >= draw.choice((0.0, 0.5, 0.9, 0.99, 1.0)))


def made_sparse(model: nn.Module, images: Tensor, kernels: list[str | None]) -> nn.Module:
    """The network by the first of these kernels that a layer of it can run by."""
    for kernel in kernels:
        try:
            return sg.sparse(copy.deepcopy(model), images, kernel=kernel)
        except ValueError as error:
            if kernel is None or not str(error).startswith(UNSUITABLE):
                raise
    raise AssertionError("None suits every network")


def with_hostile(images: Tensor, draw: Random) -> tuple[Tensor, list[int]]:
    """The batch with some images spoilt, and the indices of the others."""
    changed, count = images.clone(), len(images)
    bad = draw.sample(range(count), draw.randint(1, min(3, count)))
    for index in bad:
        kind = draw.choice(HOSTILE)
        if kind == "large":
            changed[index] *= 1e5
        elif kind == "one nan":
            changed[index].view(-1)[draw.randrange(changed[index].numel())] = float("nan")
        else:
            changed[index] = float(kind)
    return changed, [index for index in range(count) if index not in bad]


def distance(got: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest output of the image."""
    off = (got.double() - wanted).abs().flatten(1).amax(1)
    return float((off / wanted.abs().flatten(1).amax(1).clamp_min(1e-3)).max())


def bits(tensor: Tensor) -> Tensor:
    """The bits, by which NaN equals itself."""
    return tensor.contiguous().view(torch.int32)
