"""The fast cosine transform and its inverse."""

from __future__ import annotations

import functools
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

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
