"""Running sparse networks: kernels that read only the kept weights."""

from .triton_linear import PackedLinear, pack

__all__ = ["PackedLinear", "pack"]
