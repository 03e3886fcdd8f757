"""The adaptive Fastfood transform S H G P H B, which replaces a fully connected layer."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate_runtime.kernels import KERNELS

from .hadamard import Hadamard
from .stand_in import StandIn

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
