"""A sparse linear layer on CUDA: its kept weights in bands, multiplied by Triton kernels."""

from __future__ import annotations

import os
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate.kernels import Launch

from .bands import Band, cut
from .triton_launch import begins_early, filled, is_aligned, multiprocessors, on_device, places, settle
from .triton_tile import Tile, choose, power_of_two
from .triton_words import decode, encode, kind_of

KERNELS = "sparsegate.runtime.triton_kernels"

SPREAD_TILE = 2048  # elements that a program of the kernel spread moves


class PackedLinear(nn.Module):
    """A linear layer, inference only, that stores and reads only its kept weights; made by `pack`.

    In bf16 and fp16 a kept weight takes 4 bytes, a word of its value and its column; in fp32 it takes 6. More than
    65,536 inputs take 32-bit columns. Sums are in fp32. Rows are padded a little, with zero times the row's last input.
    """

    columns: Tensor
    values: Tensor
    bias: Tensor
    order: Tensor

    def __init__(
        self, buffers: dict[str, Tensor], bands: tuple[Band, ...], shape: tuple[int, int], *, relu: bool
    ) -> None:
        super().__init__()
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)
        self.bands, self.relu = bands, relu
        self.out_features, self.in_features = shape
        self.kind = kind_of(self.values.dtype, self.in_features)
        self.plans: dict[Any, Plan] = {}
        self.register_load_state_dict_post_hook(_settle)  # type: ignore[no-untyped-call]

    @property
    def num_words(self) -> int:
        """Stored weights, those of the padding included."""
        return self.columns.numel()

    @property
    def num_bytes(self) -> int:
        """What is read at every call: weights, their columns, biases and the order of the rows."""
        return sum(each.nbytes for each in self.buffers())

    def tile(self, x: Float[Tensor, "batch columns"]) -> Tile:
        """How the work is cut for so many images."""
        return choose(self.bands[0].width, self.out_features, len(x), _image_bytes(x))

    def forward(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
        """The outputs, in the order of the rows that were packed."""
        return linear(self, x)

    def extra_repr(self) -> str:
        """Shape and storage, for print."""
        return (
            f"{self.in_features}, {self.out_features}, relu={self.relu}, words={self.num_words}, bytes={self.num_bytes}"
        )


def _settle(packed: PackedLinear, _: Any) -> None:
    settle(packed.columns)


def _image_bytes(x: Float[Tensor, "rows columns"]) -> int:
    return power_of_two(x.shape[1]) * x.element_size()


@torch.no_grad()
def pack(
    weight: Float[Tensor, "rows columns"], bias: Float[Tensor, " rows"] | None, *, relu: bool, tile: Tile | None = None
) -> PackedLinear:
    """Packs a layer's kept weights, the longest rows first, into bands of rows of one width, for the tile of one image.

    >>> pack(torch.tensor([[0.0, 2.0], [0.0, 0.0]]), None, relu=False)
    PackedLinear(2, 2, relu=False, words=4, bytes=40)
    """
    kind_of(weight.dtype, weight.shape[1])  # says what cannot be packed
    counts = (weight != 0).sum(1)
    order = counts.argsort(descending=True, stable=True)
    ranked = counts[order].cpu().numpy()
    tile = tile or choose(int(counts.max()) if len(counts) else 0, len(weight), 1, _image_bytes(weight))
    bands = cut(ranked, step=tile.rows)  # no program of one image is left with few rows
    columns, values = encode(weight.detach()[order], bands)
    bias = weight.new_zeros(len(weight)) if bias is None else bias.detach()
    buffers = {"columns": columns, "values": values, "bias": bias.float()[order], "order": order.int()}
    settle(weight)
    return PackedLinear(buffers, bands, (weight.shape[0], weight.shape[1]), relu=relu)


def unpack(packed: PackedLinear) -> tuple[Float[Tensor, "rows columns"], Float[Tensor, " rows"]]:
    """The dense weight, and the bias in fp32, of a packed layer."""
    columns, values = decode(packed.columns, packed.values, packed.kind)
    weight = values.new_zeros(packed.out_features, packed.in_features)
    for band in packed.bands:
        words = slice(band.start, band.start + band.rows * band.width)
        rows = packed.order[band.row : band.row + band.rows].long().repeat_interleave(band.width)
        weight.index_put_((rows, columns[words]), values[words], accumulate=True)  # padding adds zero
    return weight, torch.empty_like(packed.bias).index_copy_(0, packed.order.long(), packed.bias)


def reference_linear(packed: PackedLinear, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
    """What `linear` computes, in plain PyTorch, on any device, in float64 before it is rounded."""
    weight, bias = unpack(packed)
    out = x.double() @ weight.double().T + bias.double()
    return (out.relu() if packed.relu else out).to(x.dtype)


def linear(
    packed: PackedLinear, x: Float[Tensor, "*batch columns"], *, tile: Tile | None = None
) -> Float[Tensor, "*batch rows"]:
    """Multiplies with Triton kernels: one image straight away, more of them by whole columns of images."""
    check_input(packed, x, axis=-1, size=packed.in_features)
    flat = x.reshape(x.shape[:-1].numel(), packed.in_features)
    out = x.new_empty(len(flat), packed.out_features)
    if out.numel():
        flat = flat if flat.stride(1) == 1 else flat.contiguous()
        key = (len(flat), is_aligned(flat), tile)
        if key not in packed.plans:
            packed.plans[key] = Plan(packed, flat, tile or packed.tile(flat))
        with on_device(x):
            packed.plans[key](packed, flat, out)
    return out.view(*x.shape[:-1], packed.out_features)


class Plan:
    """What is launched for a number of images."""

    def __init__(self, packed: PackedLinear, x: Tensor, tile: Tile) -> None:
        early, self.images = begins_early(x.device), tile.images
        self.panels = -(-len(x) // tile.images)
        self.bands, programs = places(packed.bands, tile.rows)
        fixed = {"KIND": packed.kind, "RELU": packed.relu, "ROWS": tile.rows, "WIDTH": tile.width}
        bands = {"NUM_BANDS": len(packed.bands), "EARLY": early}
        options = {"num_warps": tile.warps, "launch_pdl": early}
        self.spread: Launch | None = None
        if len(x) == 1:
            more = bands | {"SHARED": power_of_two(packed.in_features) if tile.shared else 0}
            more |= {"STEP": tile.step, "LANES": tile.lanes, "ONCE": packed.bands[0].width <= tile.width}
            programs = filled(programs, multiprocessors(x.device))
            self.multiply = Launch(KERNELS, "linear_one", (programs, 1), fixed | more, options)
            return
        more = {"IMAGES": tile.images} | bands | {"SPREAD": tile.spread}
        self.multiply = Launch(KERNELS, "linear_many", (programs, self.panels), fixed | more, options)
        if tile.spread:
            columns = max(16, SPREAD_TILE // tile.images)
            constants = {"COLUMNS": columns, "IMAGES": tile.images, "EARLY": early}
            grid = (-(-packed.in_features // columns), self.panels)
            self.spread = Launch(KERNELS, "spread", grid, constants, {"launch_pdl": early})

    def __call__(self, packed: PackedLinear, x: Tensor, out: Tensor) -> None:
        """Fills the outputs."""
        layer = (packed.columns, packed.values, packed.bias, packed.order, out, self.bands, packed.in_features)
        if len(x) == 1:
            self.multiply(x, *layer)
            return
        x_row = x.stride(0)
        if self.spread:
            beside = x.new_empty(self.panels, packed.in_features, self.images)
            self.spread(x, beside, packed.in_features, len(x), x_row)
            x = beside
        self.multiply(x, *layer, packed.out_features, len(out), x_row)


def check_input(packed: PackedLinear, x: Tensor, *, axis: int, size: int) -> None:
    """Says what is wrong with an input before a kernel reads past its end."""
    if x.dim() <= max(0, axis) or x.shape[axis] != size:
        raise ValueError(
            f"wanted {size} inputs in axis {axis}, got the shape {tuple(x.shape)}; pass what was packed for"
        )
    if x.dtype != packed.values.dtype or x.device != packed.columns.device:
        wanted, got = (packed.values.dtype, packed.columns.device), (x.dtype, x.device)
        raise ValueError(f"wanted an input of {wanted}, as the weights are, got {got}; convert it with x.to")
    if x.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(f"Triton's kernels run on CUDA, got a tensor on {x.device}; use the reference there")
    if torch.is_grad_enabled() and x.requires_grad:
        raise ValueError("sparse layers are for inference, got an input that wants a gradient; use torch.no_grad()")
