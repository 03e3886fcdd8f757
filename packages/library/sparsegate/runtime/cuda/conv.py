"""Runs a sparse convolution on CUDA: packed weights read a padded image, without unfolding."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.triton_call import Launch

from .launch import band_arguments, begins_early, is_aligned, on_device
from .linear import PackedLinear, check_input, pack, unpack
from .tile import Tile, power_of_two

MAX_ELEMENTS = 1 << 30  # the kernel has 32-bit indices, and padding adds elements
FEW_PIXELS = 1024
"""At most this many output pixels are divided into smaller, and therefore more, programs."""
PAD_TILE = 1024  # elements that a program of the kernel `pad` writes

Pair = tuple[int, int]


@dataclass(frozen=True)
class Geometry:
    """Kernel size, stride, padding, dilation and groups of a convolution."""

    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def out_size(self, height: int, width: int) -> Pair:
        """Returns the height and width of the output.

        >>> Geometry(kernel=(3, 3), padding=(1, 1)).out_size(14, 14)
        (14, 14)
        """
        sizes = zip(
            (height, width), self.kernel, self.stride, self.padding, self.dilation, strict=True
        )
        y, x = (
            (size + 2 * pad - step * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, pad, step in sizes
        )
        return y, x


class PackedConv2d(nn.Module):
    """A convolution for inference that stores and reads only kept weights; `pack_conv` makes it."""

    def __init__(self, rows: PackedLinear, geometry: Geometry) -> None:
        super().__init__()
        self.rows, self.geometry = rows, geometry
        self.plans: dict[Any, ConvLaunch] = {}

    @property
    def in_channels(self) -> int:
        """Channels of the input."""
        ky, kx = self.geometry.kernel
        return self.rows.in_features // (ky * kx) * self.geometry.groups

    def forward(
        self, x: Float[Tensor, "batch channels y x"]
    ) -> Float[Tensor, "batch rows out_y out_x"]:
        """Returns the output in contiguous NCHW format."""
        return conv(self, x)


def pack_conv(
    weight: Float[Tensor, "rows channels ky kx"],
    bias: Float[Tensor, " rows"] | None,
    *,
    relu: bool,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> PackedConv2d:
    """Packs the kept weights of a convolution; every output channel is a row."""
    kernel = (weight.shape[2], weight.shape[3])
    rows = pack(weight.flatten(1), bias, relu=relu, tile=Tile(1, 1, 1))
    return PackedConv2d(rows, Geometry(kernel, stride, padding, dilation, groups))


def reference_conv(
    packed: PackedConv2d, x: Float[Tensor, "batch channels y x"]
) -> Float[Tensor, "batch rows out_y out_x"]:
    """Computes the result of `conv` with plain PyTorch in float64, on any device."""
    weight, bias = unpack(packed.rows)
    geometry = packed.geometry
    weight = weight.view(len(weight), -1, *geometry.kernel).double()
    out = F.conv2d(
        x.double(),
        weight,
        bias.double(),
        geometry.stride,
        geometry.padding,
        geometry.dilation,
        geometry.groups,
    )
    return (out.relu() if packed.rows.relu else out).to(x.dtype)


def conv(
    packed: PackedConv2d, x: Float[Tensor, "batch channels y x"], *, tile: Tile | None = None
) -> Float[Tensor, "batch rows out_y out_x"]:
    """Convolves without unfolding: pads the input, then every weight adds a shifted plane."""
    check_input(packed.rows, x, axis=1, size=packed.in_channels)
    out = x.new_empty(len(x), packed.rows.out_features, *packed.geometry.out_size(*x.shape[2:]))
    if max(x.numel(), out.numel()) > MAX_ELEMENTS:
        raise ValueError(
            f"expected at most {MAX_ELEMENTS} elements of input and output, "
            f"got {max(x.numel(), out.numel())}; split the batch"
        )
    if out.numel():
        x = x.contiguous()
        key = (tuple(x.shape), is_aligned(x), tile)
        if key not in packed.plans:
            packed.plans[key] = ConvLaunch(
                packed, x, out, tile or choose_conv(packed.rows.num_words, out)
            )
        with on_device(x):
            packed.plans[key](packed, x, out)
    return out


def choose_conv(num_words: int, out: Float[Tensor, "batch rows out_y out_x"]) -> Tile:
    """Chooses a tile, whose `images` are pixels, for a number of words and a shape of output."""
    num_rows = out.shape[1]
    num_pixels = out.numel() // num_rows
    widest, pixels = (32, 64) if num_pixels <= FEW_PIXELS else (16, 256)
    width = min(widest, max(4, power_of_two(num_words // num_rows) // 4))
    return Tile(1, width, 2, min(pixels, power_of_two(num_pixels)))


class ConvLaunch:
    """Launches the kernels `pad` and `conv` for inputs of one shape."""

    def __init__(self, packed: PackedConv2d, x: Tensor, out: Tensor, tile: Tile) -> None:
        rows, geometry, early = packed.rows, packed.geometry, begins_early(x.device)
        (top, left), (height, width) = geometry.padding, x.shape[2:]
        self.padded = (*x.shape[:2], height + 2 * top, width + 2 * left)
        grid = (-(-prod(self.padded) // PAD_TILE), 1)
        constants = {"BLOCK": PAD_TILE, "EARLY": early}
        self.pad = Launch(
            "sparsegate.runtime.cuda.conv_kernels", "pad", grid, constants, {"launch_pdl": early}
        )
        self.pad_sizes = (prod(self.padded), height, width, top, left, *self.padded[2:])
        self.bands, programs = band_arguments(rows.bands, tile.rows)
        num_pixels = out.shape[0] * out.shape[2] * out.shape[3]
        sizes = (
            rows.out_features,
            num_pixels,
            *out.shape[2:],
            prod(self.padded[2:]),
            self.padded[3],
        )
        group_rows = rows.out_features // geometry.groups
        steps = (*geometry.stride, *geometry.dilation)
        self.sizes = (*sizes, packed.in_channels, group_rows, *steps)
        fixed = {
            "KIND": rows.kind,
            "RELU": rows.relu,
            "KERNEL_Y": geometry.kernel[0],
            "KERNEL_X": geometry.kernel[1],
        }
        fixed |= {"ROWS": tile.rows, "WIDTH": tile.width, "PIXELS": tile.images}
        fixed |= {"NUM_BANDS": len(rows.bands), "EARLY": early}
        grid = (programs, -(-num_pixels // tile.images))
        options = {"num_warps": tile.warps, "launch_pdl": early}
        self.convolve = Launch("sparsegate.runtime.cuda.conv_kernels", "conv", grid, fixed, options)

    def __call__(self, packed: PackedConv2d, x: Tensor, out: Tensor) -> None:
        """Fills `out`."""
        rows = packed.rows
        if packed.geometry.padding != (0, 0):
            wide = x.new_empty(self.padded)
            self.pad(x, wide, *self.pad_sizes)
            x = wide
        self.convolve(
            x, rows.columns, rows.values, rows.bias, rows.order, out, self.bands, *self.sizes
        )
