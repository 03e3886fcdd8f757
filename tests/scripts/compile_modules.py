"""Compiles models with sparse layers, in one graph each.

Runs in a process without the checks of shapes.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from sparsegate.runtime.modules import swapped

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "linear": (nn.Linear(8, 9), (2, 4, 8)),
    "conv1d": (nn.Conv1d(8, 6, 3, padding="same", dilation=2), (2, 8, 11)),
    "conv2d": (nn.Conv2d(8, 6, 3, 2, 1, groups=2, padding_mode="reflect"), (2, 8, 9, 7)),
    "transposed": (nn.ConvTranspose2d(8, 6, 4, 2, 1), (2, 8, 5, 6)),
    "lstm": (nn.LSTM(8, 5, 2, batch_first=True, bidirectional=True), (2, 4, 8)),
    "gru": (nn.GRU(8, 5), (4, 2, 8)),
    "encoder": (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (2, 5, 32)),
}


class Named(nn.Module):
    """A layer within a model; of a recurrent one, the outputs."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        out = self.layer(x)
        return torch.tanh(out[0] if isinstance(out, tuple) else out)


@torch.no_grad()
def main() -> int:
    """The number of layers whose compiled form computes something else."""
    failed = 0
    for name, (layer, shape) in LAYERS.items():
        for parameter in layer.parameters():
            if parameter.ndim > 1:
                parameter.data[torch.rand_like(parameter) < 0.7] = 0
        model, x = Named(layer).eval(), torch.randn(shape)
        fast, _ = swapped(model, (x,), {}, force=True)
        for backend in ("aot_eager", "inductor") if name == "linear" else ("aot_eager",):
            torch.compiler.reset()
            got = torch.compile(fast, backend=backend, fullgraph=True)(x)
            if not torch.allclose(got, model(x), atol=1e-5):
                sys.stderr.write(f"{name} {backend}\n")
                failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
