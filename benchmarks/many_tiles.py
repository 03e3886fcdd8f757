"""Times ways to divide the work of the pooled convolutions on this GPU, and takes the fastest of each."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from sparsegate_lab.batched import pooled
from sparsegate_lab.batched.pooled import TILES, KernelTile, Shape, pooled_conv

MEMBERS, BATCH = 32, 128
CANDIDATES = {
    ("forward", False): [KernelTile(64, 32, 4), KernelTile(64, 32, 8)],
    ("forward", True): [KernelTile(32, 32, 4), KernelTile(64, 32, 8)],
    ("weights", False): [KernelTile(32, 32, 4, 1152)],
    ("weights", True): [KernelTile(32, 64, 4, 512), KernelTile(32, 128, 8, 512)],
}
SIZES = {False: (1, 28, 20), True: (20, 12, 50)}


def tune(seconds: float = 40.0) -> None:
    """Puts the fastest tiles into the table that the kernels are called by."""
    deadline = time.perf_counter() + seconds
    for (what, large), tiles in CANDIDATES.items():
        timed = {}
        for tile in tiles:
            if time.perf_counter() < deadline:
                TILES[what, large] = tile
                timed[tile] = _milliseconds(_work(what, *SIZES[large]))
        if timed:
            TILES[what, large] = min(timed, key=timed.__getitem__)
        print(
            what, large, {tuple(tile): round(each, 4) for tile, each in timed.items()}, flush=True
        )


def check() -> None:
    """The largest differences from torch's own operations, relative to the largest value."""
    for channels, size, units in SIZES.values():
        images, weight, bias = _tensors(4, channels, size, units)
        given = [each.requires_grad_() for each in (images, weight, bias)]
        made = pooled_conv(images, weight, bias)
        each = zip(images.chunk(4), weight, bias, strict=True)
        wanted = torch.cat([F.relu(F.max_pool2d(F.conv2d(*one), 2)) for one in each])
        grad = torch.randn_like(wanted)
        pairs = zip(
            torch.autograd.grad(made, given, grad),
            torch.autograd.grad(wanted, given, grad),
            strict=True,
        )
        far = [
            float((one - other).abs().max() / other.abs().max())
            for one, other in [(made, wanted), *pairs]
        ]
        print("check", [f"{value:.1e}" for value in far], flush=True)


def _tensors(members: int, channels: int, size: int, units: int) -> tuple[torch.Tensor, ...]:
    images = torch.randn(members * BATCH, channels, size, size, device="cuda")
    weight = torch.randn(members, units, channels, 5, 5, device="cuda") / (5 * channels**0.5)
    return (
        images.contiguous(memory_format=torch.channels_last),
        weight,
        torch.randn(members, units, device="cuda") / 10,
    )


def _work(what: str, channels: int, size: int, units: int) -> Callable[[], object]:
    images, weight, bias = _tensors(MEMBERS, channels, size, units)
    shape = Shape.of(images, weight)
    if what == "forward":
        return lambda: pooled_conv(images, weight, bias)
    last = images.permute(0, 2, 3, 1)
    grad = torch.randn(len(images), shape.TALL, shape.BROAD, units, device="cuda")
    code = torch.randint(0, 5, grad.shape, device="cuda", dtype=torch.uint8)
    return lambda: pooled._to_weights(last, grad, code, shape, MEMBERS)


def _milliseconds(work: Callable[[], object]) -> float:
    for _ in range(3):
        work()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(10):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 10


if __name__ == "__main__":
    check()
    tune()
