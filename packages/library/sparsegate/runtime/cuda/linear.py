"""A sparse linear layer on CUDA: its kept weights in bands, multiplied by Triton kernels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate.triton_call import Launch

from .bands import Band
from .bands import cut as cut_bands
from .chunks import Format, Words, make
from .cut import Cut, choose_cut, fits
from .launch import begins_early, filled, is_aligned, multiprocessors, on_device, places, settle
from .tile import Tile, choose, power_of_two
from .words import KINDS, decode, encode, kind_of

KERNELS = "sparsegate.runtime.cuda.kernels"
CHUNK_KERNELS = "sparsegate.runtime.cuda.chunk_kernels"

USUAL_MULTIPROCESSORS = (
    132  # of an H100 or H200, for layers that are packed before they are moved to the GPU
)
SPREAD_TILE = 2048  # elements that a program of the kernel spread moves


class PackedLinear(nn.Module):
    """A linear layer, inference only, that stores and reads only its kept weights; made by `pack`.

    In bf16 and fp16 a kept weight takes 4 bytes, a word of its value and its column; in fp32 it takes 6. More than
    65,536 inputs take 32-bit columns. Sums are in fp32. Rows are padded a little, with zero times the row's last input.

    Words are held twice where one image is faster in another order than several: as `chunks` too, which are no part of
    the state, and are made anew when it is loaded.
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
        self.format: Format | None = None
        self.bands, self.relu = bands, relu
        self.out_features, self.in_features = shape
        self.kind = kind_of(self.values.dtype, self.in_features)
        self.plans: dict[Any, Plan | ChunkPlan] = {}
        self.register_load_state_dict_post_hook(_settle)  # type: ignore[no-untyped-call]

    @property
    def num_words(self) -> int:
        """Stored weights, those of the padding included."""
        return self.columns.numel()

    @property
    def num_bytes(self) -> int:
        """What is read for several images: weights, their columns, biases and the order of the rows."""
        return sum(each.nbytes for each in self.buffers()) - self.chunks.nbytes

    @property
    def num_bytes_of_one(self) -> int:
        """What is read for one image."""
        return self.chunks.nbytes if self.format else self.num_bytes

    def tile(self, x: Float[Tensor, "batch columns"]) -> Tile:
        """How the work is cut for so many images."""
        return choose(self.bands[0].width, self.out_features, len(x), _image_bytes(x))

    def forward(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
        """The outputs, in the order of the rows that were packed."""
        return linear(self, x)

    def extra_repr(self) -> str:
        """Shape and storage, for print."""
        return f"{self.in_features}, {self.out_features}, relu={self.relu}, words={self.num_words}, bytes={self.num_bytes}"


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
    """Packs a layer's kept weights, the longest rows first, into bands of rows of one width, for the tile of one image.

    Without a tile, also into chunks, for one image, where those are faster.

    >>> pack(torch.tensor([[0.0, 2.0], [0.0, 0.0]]), None, relu=False)
    PackedLinear(2, 2, relu=False, words=4, bytes=40)
    """
    kind_of(weight.dtype, weight.shape[1])  # says what cannot be packed
    counts = (weight != 0).sum(1)
    order = counts.argsort(descending=True, stable=True)
    ranked = counts[order].cpu().numpy()
    best = tile or choose(
        int(counts.max()) if len(counts) else 0, len(weight), 1, _image_bytes(weight)
    )
    bands = cut_bands(ranked, step=best.rows)  # no program of one image is left with few rows
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
    """Makes the chunks of a layer, in place, if its weights can be cut so; any that it had are gone."""
    weight, bias = unpack(packed)
    row, column = weight.nonzero(as_tuple=True)
    value = weight[row, column].view(torch.int16)
    row, column, value, bias = (each.cpu() for each in (row, column, value, bias))
    words = Words(row.numpy(), column.numpy(), value.numpy(), bias.numpy(), packed.in_features)
    size = multiprocessors(weight.device) if weight.is_cuda else USUAL_MULTIPROCESSORS
    if cut is not None and not fits(cut, words.counts):
        raise ValueError(
            f"{cut} has no room for the {int(words.counts.sum())} words of this layer; give it more programs, warps or "
            f"words a thread, or leave cut out to have one chosen"
        )
    found = cut or choose_cut(words.counts, packed.in_features, size)
    records, packed.format = make(words, found) if found else (np.empty(0, np.int32), None)
    packed.chunks = torch.from_numpy(records).to(weight.device)
    packed.plans.clear()


def unpack(packed: PackedLinear) -> tuple[Float[Tensor, "rows columns"], Float[Tensor, " rows"]]:
    """The dense weight, and the bias in fp32, of a packed layer."""
    columns, values = decode(packed.columns, packed.values, packed.kind)
    weight = values.new_zeros(packed.out_features, packed.in_features)
    for band in packed.bands:
        words = slice(band.start, band.start + band.rows * band.width)
        rows = packed.order[band.row : band.row + band.rows].long().repeat_interleave(band.width)
        weight.index_put_(
            (rows, columns[words]), values[words], accumulate=True
        )  # padding adds zero
    return weight, torch.empty_like(packed.bias).index_copy_(0, packed.order.long(), packed.bias)


def reference_linear(
    packed: PackedLinear, x: Float[Tensor, "*batch columns"]
) -> Float[Tensor, "*batch rows"]:
    """What `linear` computes, in plain PyTorch, on any device, in float64 before it is rounded."""
    weight, bias = unpack(packed)
    out = x.double() @ weight.double().T + bias.double()
    return (out.relu() if packed.relu else out).to(x.dtype)


def linear(
    packed: PackedLinear, x: Float[Tensor, "*batch columns"], *, tile: Tile | None = None
) -> Float[Tensor, "*batch rows"]:
    """Multiplies with Triton kernels: one image straight away, more of them by whole columns of images.

    One image with a tile is multiplied by the bands, not by the chunks.
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


def _plan(packed: PackedLinear, x: Tensor, tile: Tile | None) -> Plan | ChunkPlan:
    if len(x) == 1 and tile is None and packed.format:
        return ChunkPlan(packed, packed.format, x)
    return Plan(packed, x, tile or packed.tile(x))


class ChunkPlan:
    """What is launched for one image if there are chunks."""

    def __init__(self, packed: PackedLinear, form: Format, x: Tensor) -> None:
        cut, early = form.cut, begins_early(x.device)
        constants = {
            "KIND": packed.kind,
            "RELU": packed.relu,
            "EACH": cut.each,
            "SLOTS": power_of_two(cut.each),
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
        raise ValueError(
            f"wanted an input of {wanted}, as the weights are, got {got}; convert it with x.to"
        )
    if x.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            f"Triton's kernels run on CUDA, got a tensor on {x.device}; use the reference there"
        )
    if torch.is_grad_enabled() and x.requires_grad:
        raise ValueError(
            "sparse layers are for inference, got an input that wants a gradient; use torch.no_grad()"
        )
