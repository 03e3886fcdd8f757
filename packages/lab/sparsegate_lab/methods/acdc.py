"""Cascades of diagonals and cosine transforms: Moczulski et al., ACDC, 2015."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from sparsegate.schedule import cosine
from sparsegate_lab.layers import StandIn, linears, replace_
from sparsegate_lab.method import Method, Training, scale_lr_


@dataclass(frozen=True)
class Acdc(Method):
    """Trains a network whose chosen layers are ACDC cascades from the start."""

    # Differs from Moczulski et al. 2015: 1. one learning rate for A and D, where theirs are 24 and
    # 12 times the network's.

    depth: int = 12
    """Number of steps A C D C^-1 of a cascade."""

    width: int | None = None
    """Width of a cascade; None: the larger side of the layer."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    diagonal_lr: float = 0.3
    """Initial learning rate of the diagonals, without weight decay; falls along a cosine."""

    permutation: int = 0
    """Seed of the permutations, which are not stored."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth is at least 1, got {self.depth}")
        if not self.diagonal_lr > 0:
            raise ValueError(f"diagonal_lr is above zero, got {self.diagonal_lr}")

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Replaces the chosen layers with cascades."""
        for index, layer in enumerate(linears(model, self.only).values()):
            seed = self.permutation + index
            replace_(model, layer, AcdcLayer(layer, depth=self.depth, width=self.width, seed=seed))
        return model

    def optimizers(self, model: nn.Module, training: Training) -> list[Optimizer]:
        """The run's SGD, and one for the diagonals without weight decay."""
        diagonals = _diagonals(model)
        others = [each for each in model.parameters() if each not in set(diagonals)]
        own = torch.optim.SGD(diagonals, lr=self.diagonal_lr, momentum=0.9)
        return [training.sgd(others), own]

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Lets both learning rates follow a cosine."""
        weights, diagonals = optimizers
        scale_lr_(weights, cosine(progress))
        for group in diagonals.param_groups:
            group["lr"] = self.diagonal_lr * cosine(progress)

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its cascades."""
        return model


def _diagonals(model: nn.Module) -> list[nn.Parameter]:
    cascades = [module for module in model.modules() if isinstance(module, AcdcLayer)]
    return [each for cascade in cascades for each in cascade.parameters()]


# Up to this size a GPU computes the transform as one matrix product, which starts fewer kernels.
WHOLE = 2048


class Cosine(nn.Module):
    """The orthonormal DCT-II of the last dimension, computed by one real Fourier transform.

    >>> Cosine(4)(torch.ones(4))
    tensor([2., 0., 0., 0.])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        turn = math.pi * torch.arange(size // 2 + 1, dtype=torch.float64) / (2 * size)
        scale = torch.full_like(turn, (2 / size) ** 0.5)
        scale[0] = (1 / size) ** 0.5
        self.register_buffer("cos", (scale * turn.cos()).float(), persistent=False)
        self.register_buffer("sin", (scale * turn.sin()).float(), persistent=False)

    def forward(self, x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        """The transform of the last dimension, in full precision."""
        if x.is_cuda and self.size <= WHOLE:
            return product(x, matrix(self.size, x.device).T)
        folded = torch.cat((x[..., ::2], x[..., 1::2].flip(-1)), dim=-1)
        real, imaginary = torch.view_as_real(torch.fft.rfft(folded.float())).unbind(-1)
        cos, sin = self._factors()
        low = real * cos + imaginary * sin
        high = real * sin - imaginary * cos  # of the frequency n - k
        return torch.cat((low, high[..., 1 : (self.size + 1) // 2].flip(-1)), dim=-1)

    def inverse(self, x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        """What the transform makes x of, in full precision."""
        if x.is_cuda and self.size <= WHOLE:
            return product(x, matrix(self.size, x.device))
        low = x[..., : self.size // 2 + 1]
        high = F.pad(x, (0, 1)).flip(-1)[..., : self.size // 2 + 1]
        cos, sin = self._factors()
        square = cos.square() + sin.square()  # the factors are scaled, and here the scale is undone
        cos, sin = cos / square, sin / square
        real, imaginary = low * cos + high * sin, low * sin - high * cos
        folded = torch.fft.irfft(torch.complex(real.float(), imaginary.float()), n=self.size)
        even, odd = (
            folded[..., : (self.size + 1) // 2],
            folded[..., (self.size + 1) // 2 :].flip(-1),
        )
        pairs = torch.stack((even, F.pad(odd, (0, even.shape[-1] - odd.shape[-1]))), dim=-1)
        return pairs.flatten(-2)[..., : self.size]

    def _factors(self) -> tuple[Tensor, Tensor]:
        return self.get_buffer("cos"), self.get_buffer("sin")


@functools.lru_cache(maxsize=4)
def matrix(size: int, device: torch.device) -> Float[Tensor, "n n"]:
    """The transform as a matrix, a row for every frequency.

    >>> matrix(2, torch.device("cpu"))
    tensor([[ 0.7071,  0.7071],
            [ 0.7071, -0.7071]])
    """
    place = torch.arange(size, dtype=torch.float64)
    waves = torch.cos(math.pi / size * torch.outer(place, place + 0.5)) * math.sqrt(2 / size)
    waves[0] /= math.sqrt(2)
    return waves.float().to(device)


def product(x: Float[Tensor, "*batch n"], by: Float[Tensor, "n n"]) -> Float[Tensor, "*batch n"]:
    """A product in full precision, under autocast too."""
    with torch.autocast(x.device.type, enabled=False):
        y: Tensor = x.float() @ by
    return y


SPREAD = 0.061**0.5  # diagonals start at one with this deviation: N(1, 0.061) in the paper


class AcdcLayer(StandIn):
    """A cascade of diagonals A and D around cosine transforms C, with rectifiers between.

    >>> AcdcLayer(nn.Linear(800, 500), depth=12).num_values  # 12 * (A, D and D's bias) of 800
    28800

    Inputs are padded with zeros to the width; superfluous outputs are cut off.
    """

    # Differs from Moczulski et al. 2015: 1. no dropout between the last steps. 2. no factor of 0.1
    # on the inputs, which are small already. 3. other widths than the inputs' are padded; the paper
    # chose its network to fit.

    def __init__(
        self, layer: nn.Linear, *, depth: int = 12, width: int | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        self.stands_for = (layer.out_features, layer.in_features)
        self.width = max(self.stands_for) if width is None else width
        if depth < 1:
            raise ValueError(f"depth is at least 1, got {depth}")
        if self.width < max(self.stands_for):
            raise ValueError(
                f"width is at least {max(self.stands_for)}, the layer's larger side, "
                f"got {self.width}"
            )
        self.cosine = Cosine(self.width)
        self.a = nn.Parameter(1 + SPREAD * torch.randn(depth, self.width))
        self.d = nn.Parameter(1 + SPREAD * torch.randn(depth, self.width))
        self.d_bias = nn.Parameter(torch.zeros(depth, self.width))
        self.bias = None  # the last of D's biases does its work
        draw = torch.Generator().manual_seed(seed)
        orders = torch.stack([torch.randperm(self.width, generator=draw) for _ in range(depth)])
        self.register_buffer("orders", orders, persistent=False)
        self.to(layer.weight.device)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The outputs of the last step, before the model's own non-linearity."""
        hidden = F.pad(x.float(), (0, self.width - x.shape[-1]))
        steps = zip(self.a, self.d, self.d_bias, self.get_buffer("orders"), strict=True)
        for place, (a, d, bias, order) in enumerate(steps):
            if place:
                hidden = F.relu(hidden).index_select(-1, order)
            hidden = self.cosine.inverse(torch.addcmul(bias, self.cosine(hidden * a), d))
        return hidden[..., : self.stands_for[0]]
