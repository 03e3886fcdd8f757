"""Packs a sparse linear layer for CUDA and multiplies it with Triton kernels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate.triton_call import Launch

from .bands import Band, make_bands
from .chunks import RecordSizes, Words, make
from .cut import Cut, choose_cut, fits
from .launch import (
    band_arguments,
    begins_early,
    filled,
    is_aligned,
    multiprocessors,
    on_device,
    settle,
)
from .tile import Tile, choose, power_of_two
from .words import KINDS, decode, encode, kind_of

KERNELS = "sparsegate.runtime.cuda.kernels"
CHUNK_KERNELS = "sparsegate.runtime.cuda.chunk_kernels"

USUAL_MULTIPROCESSORS = 132
"""Multiprocessors of an H100 or H200, for layers that are packed on the CPU."""
SPREAD_TILE = 2048  # elements that a program of the kernel `spread` moves


class PackedLinear(nn.Module):
    """A linear layer for inference that stores and reads only kept weights; `pack` makes it.

    A kept weight takes 4 bytes in bf16 and fp16, and 6 bytes in fp32. With more than 65,536
    inputs, columns have 32 bits. Sums are in fp32. Rows are padded with zeros.

    If one image is faster with chunks than with bands, the layer stores the weights a second time
    as `chunks`. They are not in the state dict, and loading a state dict makes them again.
    """

    columns: Tensor
    values: Tensor
    bias: Tensor
    order: Tensor
    chunks: Tensor

    def __init__(
        self,
        buffers: dict[str, Tensor],
        bands: tuple[Band, ...],
        shape: tuple[int, int],
        *,
        relu: bool,
    ) -> None:
        super().__init__()
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)
        self.register_buffer(
            "chunks", self.columns.new_empty(0, dtype=torch.int32), persistent=False
        )
        self.format: RecordSizes | None = None
        self.bands, self.relu = bands, relu
        self.out_features, self.in_features = shape
        self.kind = kind_of(self.values.dtype, self.in_features)
        self.plans: dict[Any, BandLaunch | ChunkPlan] = {}
        self.register_load_state_dict_post_hook(_settle)  # type: ignore[no-untyped-call]

    @property
    def num_words(self) -> int:
        """Stored words, with padding."""
        return self.columns.numel()

    @property
    def num_bytes(self) -> int:
        """Bytes that are read for several images: words, biases and the order of the rows."""
        return sum(buffer.nbytes for buffer in self.buffers()) - self.chunks.nbytes

    @property
    def num_bytes_of_one(self) -> int:
        """Bytes that are read for one image."""
        return self.chunks.nbytes if self.format else self.num_bytes

    def tile(self, x: Float[Tensor, "batch columns"]) -> Tile:
        """Chooses the tile for a batch."""
        return choose(self.bands[0].width, self.out_features, len(x), _image_bytes(x))

    def forward(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
        """Returns the outputs, in the original order of the rows."""
        return linear(self, x)

    def extra_repr(self) -> str:
        """Shape and storage, for print."""
        return (
            f"{self.in_features}, {self.out_features}, relu={self.relu}, "
            f"words={self.num_words}, bytes={self.num_bytes}"
        )


def _settle(packed: PackedLinear, _: Any) -> None:
    if packed.format:
        add_chunks(packed)
    settle(packed.columns)


def _image_bytes(x: Float[Tensor, "rows columns"]) -> int:
    return power_of_two(x.shape[1]) * x.element_size()


@torch.no_grad()
def pack(
    weight: Float[Tensor, "rows columns"],
    bias: Float[Tensor, " rows"] | None,
    *,
    relu: bool,
    tile: Tile | None = None,
) -> PackedLinear:
    """Packs the kept weights of a layer.

    >>> pack(torch.tensor([[0.0, 2.0], [0.0, 0.0]]), None, relu=False)
    PackedLinear(2, 2, relu=False, words=4, bytes=40)

    Args:
        weight: dense weights; zeros are not stored.
        bias: biases, or None for zeros.
        relu: whether a ReLU follows the layer.
        tile: the tile of one image that bands are made for. Without it, one is chosen, and the
            weights are packed into chunks too if these are faster for one image.

    Raises:
        ValueError: the dtype is not bf16, fp16 or fp32.
    """
    kind_of(weight.dtype, weight.shape[1])  # raises for dtypes that the kernels do not take
    counts = (weight != 0).sum(1)
    order = counts.argsort(descending=True, stable=True)
    ranked = counts[order].cpu().numpy()
    best = tile or choose(
        int(counts.max()) if len(counts) else 0, len(weight), 1, _image_bytes(weight)
    )
    bands = make_bands(ranked, step=best.rows)  # every program for one image has all its rows
    columns, values = encode(weight.detach()[order], bands)
    bias = weight.new_zeros(len(weight)) if bias is None else bias.detach()
    buffers = {
        "columns": columns,
        "values": values,
        "bias": bias.float()[order],
        "order": order.int(),
    }
    packed = PackedLinear(buffers, bands, (weight.shape[0], weight.shape[1]), relu=relu)
    if tile is None and packed.kind in KINDS.values():
        add_chunks(packed)
    settle(weight)
    return packed


@torch.no_grad()
def add_chunks(packed: PackedLinear, *, cut: Cut | None = None) -> None:
    """Packs the weights of a layer into chunks, in place, and replaces previous chunks.

    Without a cut, one is chosen; the layer has no chunks if none fits. Raises ValueError if the
    given cut has no room for the layer.
    """
    weight, bias = unpack(packed)
    row, column = weight.nonzero(as_tuple=True)
    value = weight[row, column].view(torch.int16)
    tensors = (row, column, value, bias)
    rows, columns, values, biases = (tensor.cpu().numpy() for tensor in tensors)
    words = Words(rows, columns, values, biases, packed.in_features)
    size = multiprocessors(weight.device) if weight.is_cuda else USUAL_MULTIPROCESSORS
    if cut is not None and not fits(cut, words.counts):
        raise ValueError(
            f"{cut} has no room for the {int(words.counts.sum())} words of this layer; "
            "give it more programs, warps or a larger chunk_size, or omit cut to have one chosen"
        )
    found = cut or choose_cut(words.counts, packed.in_features, size)
    records, packed.format = make(words, found) if found else (np.empty(0, np.int32), None)
    packed.chunks = torch.from_numpy(records).to(weight.device)
    packed.plans.clear()


def unpack(packed: PackedLinear) -> tuple[Float[Tensor, "rows columns"], Float[Tensor, " rows"]]:
    """Returns the dense weight, and the bias in fp32, of a packed layer."""
    columns, values = decode(packed.columns, packed.values, packed.kind)
    weight = values.new_zeros(packed.out_features, packed.in_features)
    for band in packed.bands:
        words = slice(band.start, band.start + band.rows * band.width)
        rows = packed.order[band.row : band.row + band.rows].long().repeat_interleave(band.width)
        index = (rows, columns[words])
        weight.index_put_(index, values[words], accumulate=True)  # padding adds zero
    return weight, torch.empty_like(packed.bias).index_copy_(0, packed.order.long(), packed.bias)


def reference_linear(
    packed: PackedLinear, x: Float[Tensor, "*batch columns"]
) -> Float[Tensor, "*batch rows"]:
    """Computes the result of `linear` with plain PyTorch in float64, on any device."""
    weight, bias = unpack(packed)
    out = x.double() @ weight.double().T + bias.double()
    return (out.relu() if packed.relu else out).to(x.dtype)


def linear(
    packed: PackedLinear, x: Float[Tensor, "*batch columns"], *, tile: Tile | None = None
) -> Float[Tensor, "*batch rows"]:
    """Multiplies a packed layer by a batch with Triton kernels.

    One image uses the chunks of the layer if it has them and no tile is given, and its bands
    otherwise.
    """
    check_input(packed, x, axis=-1, size=packed.in_features)
    flat = x.reshape(x.shape[:-1].numel(), packed.in_features)
    out = x.new_empty(len(flat), packed.out_features)
    if out.numel():
        flat = flat if flat.stride(1) == 1 else flat.contiguous()
        key = (len(flat), is_aligned(flat), tile)
        if key not in packed.plans:
            packed.plans[key] = _plan(packed, flat, tile)
        with on_device(x):
            packed.plans[key](packed, flat, out)
    return out.view(*x.shape[:-1], packed.out_features)


def _plan(packed: PackedLinear, x: Tensor, tile: Tile | None) -> BandLaunch | ChunkPlan:
    if len(x) == 1 and tile is None and packed.format:
        return ChunkPlan(packed, packed.format, x)
    return BandLaunch(packed, x, tile or packed.tile(x))


class ChunkPlan:
    """Launches the kernel for one image of a layer with chunks."""

    def __init__(self, packed: PackedLinear, form: RecordSizes, x: Tensor) -> None:
        cut, early = form.cut, begins_early(x.device)
        constants = {
            "KIND": packed.kind,
            "RELU": packed.relu,
            "EACH": cut.chunk_size,
            "SLOTS": power_of_two(cut.chunk_size),
        }
        constants |= {
            "SIDE": cut.side(packed.in_features),
            "THREADS": cut.threads,
            "ROWS": cut.rows,
        }
        far, lanes, near = cut.sums(form.longest, packed.in_features)
        constants |= {"FAR": far, "LANES": lanes, "NEAR": near}
        constants |= {"SHARED": power_of_two(packed.in_features), "TAIL": form.tail, "EARLY": early}
        options = {"num_warps": cut.warps, "launch_pdl": early}
        self.numbers = (packed.in_features, form.used, form.lines)
        self.multiply = Launch(
            CHUNK_KERNELS, "linear_chunks", (cut.programs, 1), constants, options
        )

    def __call__(self, packed: PackedLinear, x: Tensor, out: Tensor) -> None:
        """Fills the outputs."""
        self.multiply(x, packed.chunks, out, *self.numbers)


class BandLaunch:
    """Launches the kernels for bands and one number of images."""

    def __init__(self, packed: PackedLinear, x: Tensor, tile: Tile) -> None:
        early, self.images = begins_early(x.device), tile.images
        self.panels = -(-len(x) // tile.images)
        self.bands, programs = band_arguments(packed.bands, tile.rows)
        fixed = {"KIND": packed.kind, "RELU": packed.relu, "ROWS": tile.rows, "WIDTH": tile.width}
        bands = {"NUM_BANDS": len(packed.bands), "EARLY": early}
        options = {"num_warps": tile.warps, "launch_pdl": early}
        self.spread: Launch | None = None
        if len(x) == 1:
            more = bands | {"SHARED": power_of_two(packed.in_features) if tile.shared else 0}
            more |= {
                "STEP": tile.step,
                "LANES": tile.lanes,
                "ONCE": packed.bands[0].width <= tile.width,
            }
            programs = filled(programs, multiprocessors(x.device))
            self.multiply = Launch(KERNELS, "linear_one", (programs, 1), fixed | more, options)
            return
        more = {"IMAGES": tile.images} | bands | {"SPREAD": tile.spread}
        self.multiply = Launch(
            KERNELS, "linear_many", (programs, self.panels), fixed | more, options
        )
        if tile.spread:
            columns = max(16, SPREAD_TILE // tile.images)
            constants = {"COLUMNS": columns, "IMAGES": tile.images, "EARLY": early}
            grid = (-(-packed.in_features // columns), self.panels)
            self.spread = Launch(KERNELS, "spread", grid, constants, {"launch_pdl": early})

    def __call__(self, packed: PackedLinear, x: Tensor, out: Tensor) -> None:
        """Fills the outputs."""
        layer = (
            packed.columns,
            packed.values,
            packed.bias,
            packed.order,
            out,
            self.bands,
            packed.in_features,
        )
        if len(x) == 1:
            self.multiply(x, *layer)
            return
        x_row = x.stride(0)
        if self.spread:
            panels = x.new_empty(self.panels, packed.in_features, self.images)
            self.spread(x, panels, packed.in_features, len(x), x_row)
            x = panels
        self.multiply(x, *layer, packed.out_features, len(out), x_row)


def check_input(packed: PackedLinear, x: Tensor, *, axis: int, size: int) -> None:
    """Raises ValueError for an input that the kernels cannot read or whose gradient is needed."""
    if x.dim() <= max(0, axis) or x.shape[axis] != size:
        raise ValueError(
            f"expected {size} inputs in axis {axis}, got the shape {tuple(x.shape)}; "
            "pass an input of the size that the layer was packed for"
        )
    if x.dtype != packed.values.dtype or x.device != packed.columns.device:
        expected, got = (packed.values.dtype, packed.columns.device), (x.dtype, x.device)
        raise ValueError(
            f"expected an input of {expected}, like the weights, got {got}; convert it with x.to"
        )
    if x.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            f"Triton's kernels run on CUDA, got a tensor on {x.device}; use the reference there"
        )
    if torch.is_grad_enabled() and x.requires_grad:
        raise ValueError(
            "sparse layers are for inference, got an input that requires a gradient; "
            "use torch.no_grad()"
        )
