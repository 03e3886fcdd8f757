"""`hard_wire`: compiles a small network to machine code and runs it as a module."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate.fast_call import direct, readable

from .build import build
from .c.code import MAX_WEIGHTS, Code, Dtype, generate


class HardWired(nn.Module):
    """A network whose weights are part of machine code; for inference on the CPU.

    A call runs in one thread; several threads may call it at the same time. It has no parameters.
    """

    def __init__(self, code: Code) -> None:
        super().__init__()
        self.code = code
        self._connect(build(code))

    def __call__(self, images: Tensor) -> Tensor:
        """Calls the C function directly unless hooks or gradients need a module's full call."""
        if self._direct is not None and (out := self._direct(images)) is not NotImplemented:
            return out  # type: ignore[no-any-return]
        return super().__call__(images)  # type: ignore[no-any-return]

    def forward(self, images: Float[Tensor, "image *shape"]) -> Float[Tensor, "image *outputs"]:
        """The outputs for a batch of images of the shape it was compiled for."""
        if images.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                "hard-wired code has no backward pass; call it under torch.no_grad(), or pass "
                "images.detach()"
            )
        shape = images.shape
        if shape[1:] != self._image or images.dtype is not torch.float32 or not images.is_cpu:
            raise ValueError(self._refusal(images))
        images = readable(images)
        outputs = images.new_empty(shape[0], *self._outputs)
        self._run(images.data_ptr(), shape[0], outputs.data_ptr())
        return outputs

    def extra_repr(self) -> str:
        """The shapes and the number of weights."""
        image, outputs = tuple(self.code.image), tuple(self.code.outputs)
        return f"{image} -> {outputs}, {self.code.num_weights:,} weights"

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the functions, which another process loads again."""
        return {
            key: value for key, value in self.__dict__.items() if key not in ("_run", "_direct")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._connect(build(self.code))

    def _connect(self, library: Path) -> None:
        function = getattr(
            ctypes.CDLL(str(library)), f"{self.code.name}_run"
        )  # ctypes releases the GIL
        function.argtypes = (ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p)
        function.restype = None
        self._run = function
        self._image, self._outputs = torch.Size(self.code.image), self.code.outputs
        self._direct = self.direct(self)

    def direct(self, owner: nn.Module, count: int = 1) -> Callable[[Any], Any] | None:  # noqa: ARG002
        """A direct call into C for a module that only runs this network; for any batch size."""
        address = ctypes.cast(self._run, ctypes.c_void_p).value or 0
        return direct(owner, (0, address), (tuple(self._image), tuple(self._outputs)), self._run)

    def _refusal(self, images: Tensor) -> str:
        wanted = " x ".join(["image", *map(str, self.code.image)])
        return (
            f"the network was compiled for {wanted} in float32 on the CPU, got {images.dtype} of "
            f"shape {tuple(images.shape)} on {images.device}"
        )


def hard_wire(
    model: nn.Module, *, example: Tensor, dtype: Dtype = "fp32", max_weights: int = MAX_WEIGHTS
) -> HardWired:
    """Compiles a small network to machine code; takes seconds, once for each network.

    After `fast = hard_wire(model, example=images)`, `fast(images)` equals `model(images)` in eval
    mode up to rounding.

    Args:
        model: a chain of layers.
        example: a batch of inputs; int8 chooses its scales by it.
        dtype: "fp32" or "int8".
        max_weights: refuse a model with more weights that are not zero.

    """
    return HardWired(generate(model, "net", example=example, dtype=dtype, max_weights=max_weights))
