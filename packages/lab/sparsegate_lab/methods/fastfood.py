"""Adaptive Fastfood: Yang et al., Deep Fried Convnets, 2014."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate.graph import linear_readers
from sparsegate_lab.layers import Resized, StandIn, linears, replace_
from sparsegate_lab.method import Method
from sparsegate_runtime.kernels import KERNELS


@dataclass(frozen=True)
class Fastfood(Method):
    """Trains a network whose chosen layers are adaptive Fastfood transforms from the start."""

    features: int | None = None
    """Outputs of a chosen layer, whose readers are resized: 1024 for Fastfood-1024."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    permutation: int = 0
    """Seed of the permutations, which are not stored."""

    def __post_init__(self) -> None:
        if self.features is not None and self.features < 1:
            raise ValueError(f"features is at least 1, got {self.features}")

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Replaces the chosen layers with transforms."""
        chosen = linears(model, self.only)
        readers = {}
        if self.features is not None:
            readers = {name: linear_readers(model, name) for name in chosen}
        for index, (name, layer) in enumerate(chosen.items()):
            for reader in readers.get(name, []):
                self._resize_(model, reader, chosen)
            new = FastfoodLayer(layer, features=self.features, seed=self.permutation + index)
            replace_(model, layer, new)
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its transforms."""
        return model

    def _resize_(self, model: nn.Module, reader: nn.Linear, chosen: dict[str, nn.Linear]) -> None:
        assert self.features is not None
        if any(reader is layer for layer in chosen.values()):
            raise ValueError(
                "features resizes the layer that reads them, and only= replaces that layer too; "
                "leave one of the two out"
            )
        wider = nn.Linear(self.features, reader.out_features, bias=reader.bias is not None)
        replace_(model, reader, Resized(reader, by=wider))


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


MAX_SIZE = 8192  # of a transform that the kernel serves


class FastfoodLayer(StandIn):
    """Three learned diagonals, a fixed permutation P and Walsh-Hadamard transforms H between them.

    >>> FastfoodLayer(nn.Linear(800, 500), features=1024).num_values  # three diagonals of 1024
    3072

    The inputs are padded with zeros to a power of two, n; every n features have their own block of
    diagonals. It starts as a random Gaussian map: B holds signs, G is Gaussian, and S scales the
    outputs as He's initialization would.
    """

    # Differs from Yang et al. 2014: 1. S starts at one constant, not at the lengths of Gaussian
    # rows; it is learned anyway. 2. S has no entries for features that are cut off. 3. a bias is
    # added to the features.

    def __init__(self, layer: nn.Linear, *, features: int | None = None, seed: int = 0) -> None:
        super().__init__()
        self.stands_for = (layer.out_features, layer.in_features)
        self.features = layer.out_features if features is None else features
        if self.features < 1:
            raise ValueError(f"features is at least 1, got {features}")
        self.size = 1 << (layer.in_features - 1).bit_length()
        blocks = -(-self.features // self.size)
        self.hadamard = Hadamard(self.size)
        self.signs = nn.Parameter(torch.randint(0, 2, (blocks, self.size)).float() * 2 - 1)  # B
        self.gains = nn.Parameter(torch.randn(blocks, self.size))  # G
        self.scales = nn.Parameter(torch.full((self.features,), 2**0.5))  # S
        self.bias = nn.Parameter(torch.zeros(self.features)) if layer.bias is not None else None
        draw = torch.Generator().manual_seed(seed)
        order = [
            block * self.size + torch.randperm(self.size, generator=draw) for block in range(blocks)
        ]
        self.register_buffer("order", torch.cat(order), persistent=False)  # P, of all blocks
        self.to(layer.weight.device, layer.weight.dtype)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch features"]:
        """The features before the nonlinearity; by one kernel on a CPU without gradients."""
        return self.fused(x) if self._can_fuse(x) else self.plain(x)

    def plain(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch features"]:
        """The features, step by step in torch."""
        padded = nn.functional.pad(x, (0, self.size - x.shape[-1])).unsqueeze(-2)
        mixed = self.hadamard(padded * self.signs)
        shuffled = (
            mixed.flatten(-2)
            .index_select(-1, self.get_buffer("order"))
            .unflatten(-1, self.gains.shape)
        )
        mixed = self.hadamard(shuffled * self.gains).flatten(-2)[..., : self.features]
        return (
            mixed * self.scales
            if self.bias is None
            else torch.addcmul(self.bias, mixed, self.scales)
        )

    def fused(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch features"]:
        """The features by the kernel in C, without a gradient."""
        assert KERNELS is not None
        x = x.contiguous()
        tensors = [
            each.contiguous()
            for each in (self.signs, self.get_buffer("order"), self.gains, self.scales)
        ]
        bias = None if self.bias is None else self.bias.contiguous()
        out = x.new_empty((*x.shape[:-1], self.features))
        sizes = x.shape[:-1].numel(), x.shape[-1], self.size, self.features
        places = [*(each.data_ptr() for each in tensors), None if bias is None else bias.data_ptr()]
        done = KERNELS.sg_fastfood(
            x.data_ptr(), *sizes, *places, out.data_ptr(), torch.get_num_threads()
        )
        assert done == 0
        return out

    def _can_fuse(self, x: Tensor) -> bool:
        """Whether the kernel can be used: plain tensors on a CPU, and no gradient."""
        if (
            type(x) is not Tensor
            or KERNELS is None
            or self.size > MAX_SIZE
            or torch.is_grad_enabled()
        ):
            return False
        followed = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        followed = (
            followed
            or torch._C._are_functorch_transforms_active()
            or torch.is_autocast_enabled("cpu")
        )
        tensors = (x, *self.parameters())
        return not followed and all(each.is_cpu and each.dtype == torch.float32 for each in tensors)
