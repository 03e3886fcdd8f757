"""The fast Walsh-Hadamard transform."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

BITS = 5  # of a pass: products with matrices of at most 32 by 32, which run at full speed


class Hadamard(nn.Module):
    """The orthonormal Walsh-Hadamard transform of the last dimension, a power of two.

    >>> Hadamard(4)(torch.tensor([1.0, 0.0, 0.0, 1.0]))
    tensor([1., 0., 0., 1.])

    It is its own inverse. A transform of n numbers is a Kronecker product of small ones, which take
    O(n log n) steps. Butterflies of two need fewer multiplications, but more time in torch.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        bits = size.bit_length() - 1
        if size < 1 or size != 1 << bits:
            raise ValueError(
                f"the size of a Walsh-Hadamard transform is a power of two, got {size}"
            )
        passes = max(1, -(-bits // BITS))
        self.sizes = [1 << (bits // passes + (place < bits % passes)) for place in range(passes)]
        for side in set(self.sizes):
            self.register_buffer(f"walsh{side}", _walsh(side) / side**0.5, persistent=False)

    def forward(self, x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        """The transform of the last dimension."""
        y, after = x, x.shape[-1]
        for side in self.sizes:
            after //= side
            walsh = self.get_buffer(f"walsh{side}")
            y = walsh @ y.reshape(-1, side, after) if after > 1 else y.reshape(-1, side) @ walsh
        return y.reshape(x.shape)


def _walsh(size: int) -> Float[Tensor, "size size"]:
    """Ones and minus ones, in Sylvester's order."""
    two, matrix = torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.kron(two, matrix)
    return matrix
