"""Sparse layers on a GPU: time by graph replay, against cuBLAS, cuSPARSE and cuDNN.

Every time is that of one launch in a graph of many, replayed; contenders take turns; medians.
*Cold*: every launch has its own copy of the weights, so many that none is in cache. *Warm*: all
share one, as in a network that is asked again and again. *Alone*: warm, and nobody else comes
between the layer and the empty kernel. All but cuSPARSE compute the bias. The floor is the larger
of an empty kernel's launch, which takes turns with the others, and the time in which the packed
layer's bytes could be read at the speed of a large kernel's reads and writes. Every graph takes a
millisecond or has 1,024 launches, so that how it begins and ends hardly counts.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import torch
from gpu_clock import Replay, Work, bandwidth, lasting, medians
from gpu_empty import least, nothing, reads
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.runtime.cuda.conv import conv, pack_conv, reference_conv
from sparsegate.runtime.cuda.launch import begins_early, multiprocessors
from sparsegate.runtime.cuda.linear import PackedLinear, linear, pack, reference_linear
from sparsegate.runtime.cuda.tile import power_of_two
from sparsegate_lab.train import machine, versions

BATCHES = (1, 2, 4, 8, 16, 64)
MAX_COPIES = 256
SPAN = 1000.0  # microseconds of a graph, for kernels that take one or two
EMPTY = "empty kernel"
WARPS = (4, 8, 16)  # of a kernel that does next to nothing: more threads take longer to begin
TOLERANCE = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}


@dataclass(frozen=True)
class Layer:
    """A layer of a network, at the sparsity that was reported for it."""

    name: str
    shape: tuple[int, ...]
    sparsity: float
    uneven: bool = False
    """Some rows keep many times more weights than others, as trained layers do."""
    plane: int = 0
    """Height and width of the input of a convolution."""


LAYERS = (
    Layer("VGG-16 fc6", (4096, 25088), 0.999),
    Layer("AlexNet fc6", (4096, 9216), 0.965),
    Layer("VGG-16 fc6, uneven rows", (4096, 25088), 0.999, uneven=True),
    Layer("AlexNet fc6, uneven rows", (4096, 9216), 0.965, uneven=True),
    Layer("AlexNet fc7", (4096, 4096), 0.94),
    Layer("AlexNet fc8", (1000, 4096), 0.70),
    Layer("VGG-16 fc7", (4096, 4096), 0.9901),
    Layer("VGG-16 fc8", (1000, 4096), 0.897),
    Layer("VGG-16 conv5_2", (512, 512, 3, 3), 0.882, plane=14),
)
TINY = (
    Layer("tiny", (24, 70), 0.8),
    Layer("tiny, uneven rows", (24, 70), 0.9, uneven=True),
    Layer("tiny conv", (4, 4, 3, 3), 0.8, plane=5),
)


@dataclass(frozen=True)
class Bench:
    """How to measure."""

    device: torch.device
    dtype: torch.dtype
    rounds: int
    launches: int
    span: float
    """Microseconds that a graph takes at least, if so many launches of it do."""
    cache: int
    """Bytes of the device's last cache."""

    def copies(self, num_bytes: int) -> int:
        """So many that, when the first comes round again, it is no longer in cache."""
        return max(1, min(MAX_COPIES, -(-5 * self.cache // (2 * num_bytes))))


def weights(layer: Layer, bench: Bench) -> tuple[Tensor, Tensor]:
    """Random weights and biases of a layer."""
    generator = torch.Generator(bench.device).manual_seed(0)
    keep = torch.full(layer.shape[:1], 1 - layer.sparsity, device=bench.device)
    if layer.uneven:
        keep *= torch.empty_like(keep).exponential_(generator=generator)
    mask = torch.rand(layer.shape, device=bench.device, generator=generator)
    mask = mask < keep.view(-1, *[1] * (len(layer.shape) - 1))
    weight = torch.randn(layer.shape, device=bench.device, generator=generator)
    bias = torch.randn(layer.shape[:1], device=bench.device, generator=generator)
    return (weight * mask).to(bench.dtype), bias.to(bench.dtype)


def images(layer: Layer, batch: int, bench: Bench) -> Tensor:
    shape = (layer.shape[1], layer.plane, layer.plane) if layer.plane else layer.shape[1:]
    return torch.randn(batch, *shape, device=bench.device).to(bench.dtype)


def contenders(
    layer: Layer, x: Tensor, weight: Tensor, bias: Tensor
) -> dict[str, tuple[list[Any], Callable[..., Any]]]:
    """What others offer: things to copy, and what to do with a copy."""
    if layer.plane:
        last = torch.channels_last
        beside = x.to(memory_format=last)
        return {
            "cuDNN": ([weight], lambda w: F.conv2d(x, w, bias, padding=1)),
            "cuDNN, channels last": (
                [weight.to(memory_format=last)],
                lambda w: F.conv2d(beside, w, bias, padding=1),
            ),
        }
    csr = torch.sparse_csr_tensor(*_csr(weight), size=weight.shape)
    found = {
        "cuBLAS": ([weight], lambda w: F.linear(x, w, bias)),
        "cuBLAS, no bias": ([weight], lambda w: x @ w.T),
        "cuSPARSE": ([csr], lambda w: w @ x.T),
    }
    if len(x) == 1:
        found["cuSPARSE, vector"] = ([csr], lambda w: w @ x[0])
    return found


def _csr(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    csr = weight.to_sparse_csr()
    return csr.crow_indices().int(), csr.col_indices().int(), csr.values()


def ours(
    layer: Layer, bench: Bench, weight: Tensor, bias: Tensor
) -> tuple[list[nn.Module], Callable[..., Tensor], Callable[..., Tensor]]:
    """The packed layer and its copies, what multiplies it, and what does so slowly."""
    if layer.plane:
        return (
            _many(pack_conv(weight, bias, relu=False, padding=(1, 1)), bench),
            conv,
            reference_conv,
        )
    return _many(pack(weight, bias, relu=False), bench), linear, reference_linear


def _many(packed: nn.Module, bench: Bench) -> list[nn.Module]:
    num_bytes = min(_num_bytes(packed, batch) for batch in (1, 2))
    return [packed, *(copy.deepcopy(packed) for _ in range(bench.copies(num_bytes) - 1))]


def _num_bytes(packed: nn.Module, batch: int) -> int:
    """What is read of a layer: one image and several may have words of their own."""
    if isinstance(packed, PackedLinear):
        return packed.num_bytes_of_one if batch == 1 else packed.num_bytes
    return sum(each.nbytes for each in packed.buffers())


def is_right(found: Tensor, wanted: Tensor) -> bool:
    """No output was forgotten, and the error is rounding."""
    error = (found.double() - wanted.double()).norm() / wanted.double().norm().clamp(min=1e-30)
    return bool(error < TOLERANCE[found.dtype])


def measure(layer: Layer, batch: int, made: Any, bench: Bench) -> dict[str, Any]:
    """One row of the table: everything cold and warm, in turns."""
    (weight, bias), (copies, multiply, reference) = made
    x, packed = images(layer, batch, bench), copies[0]
    wanted = reference(packed, x)
    torch.full_like(wanted, float("nan"))  # its memory is the next output's
    if not is_right(multiply(packed, x), wanted):
        raise ArithmeticError(f"wrong outputs of {layer.name}, batch {batch}")
    num_bytes = _num_bytes(packed, batch)
    works: dict[str, tuple[list[Any], Callable[..., Any]]] = dict(
        contenders(layer, x, weight, bias)
    )
    works["ours"] = (copies, lambda each: multiply(each, x))
    works[EMPTY] = ([None], lambda _: nothing[(1,)](x))
    row = {
        "layer": layer.name,
        "batch": batch,
        "sparsity": layer.sparsity,
        "bytes": num_bytes,
        "copies": len(copies),
    }
    row |= {
        name: _times(works, bench, cold=cold) for name, cold in (("cold", True), ("warm", False))
    }
    return row | {
        "alone": _times({name: works[name] for name in ("ours", EMPTY)}, bench, cold=False)
    }


def _times(works: dict[str, Any], bench: Bench, *, cold: bool) -> dict[str, Any]:
    replays, failed = {}, {}
    for name, (things, work) in works.items():
        every = _copies(things, bench) if cold else things[:1]
        try:
            launch = lambda number, every=every, work=work: work(every[number])  # noqa: E731
            replays[name] = lasting(
                launch, copies=len(every), launches=bench.launches, span=bench.span
            )
        except Exception as error:  # cuSPARSE may refuse a dtype, or to be captured
            failed[name] = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    return medians(replays, bench.rounds) | failed


def _copies(things: list[Any], bench: Bench) -> list[Any]:
    first = things[0]
    if len(things) > 1 or not isinstance(first, Tensor):
        return things
    num_bytes = first.values().nbytes * 3 if first.layout == torch.sparse_csr else first.nbytes
    return things + [first.clone() for _ in range(bench.copies(num_bytes) - 1)]


def floors(bench: Bench) -> dict[str, float]:
    """What no kernel is faster than: an empty launch, one that reads a little or an image, and the memory."""
    some, other = (torch.zeros(1024, device=bench.device) for _ in range(2))
    early, all_of_it = begins_early(bench.device), (multiprocessors(bench.device),)
    works: dict[str, Work] = {
        EMPTY: lambda _: nothing[(1,)](some),
        "empty kernel, 512 programs": lambda _: nothing[(512,)](some),
        "512 numbers copied": lambda _: least[(512,)](some, other, EARLY=False),
        "512 numbers copied, begun early": lambda _: least[(512,)](
            some, other, EARLY=early, launch_pdl=early
        ),
        "a number copied by every multiprocessor, begun early": lambda _: least[all_of_it](
            some, other, EARLY=early, launch_pdl=early
        ),
    }
    for warps in WARPS:
        works[f"empty kernel on every multiprocessor, {warps} warps"] = lambda _, warps=warps: (
            nothing[all_of_it](some, num_warps=warps)
        )
    for size, warps in product((9216, 25088), WARPS):
        image = torch.randn(size, device=bench.device).to(bench.dtype)
        name = f"{size} inputs read by every multiprocessor, {warps} warps, begun early"
        works[name] = lambda _, image=image, warps=warps: reads[all_of_it](
            image,
            other,
            len(image),
            SIZE=power_of_two(len(image)),
            EARLY=early,
            num_warps=warps,
            launch_pdl=early,
        )
    replays = {
        name: Replay(work, copies=1, launches=10 * bench.launches) for name, work in works.items()
    }
    found = {name: each["median"] for name, each in medians(replays, bench.rounds).items()}
    return found | {
        "GB/s": bandwidth(bench.device, 1 << 31 if bench.device.type == "cuda" else 1 << 20)
    }


def summary(row: dict[str, Any], floor: dict[str, float]) -> dict[str, Any]:
    """Ratios: how much faster than the best of each other library, and how far from the floor."""
    found: dict[str, Any] = {}
    for state in ("cold", "warm", "alone"):
        bound = max(row[state][EMPTY]["median"], row["bytes"] / floor["GB/s"] / 1e3)
        mine = _best(row[state], "ours") or float("inf")
        others = {
            "dense": _best(row[state], "cuBLAS", "cuDNN"),
            "cuSPARSE": _best(row[state], "cuSPARSE"),
        }
        ratios = {
            f"times_{name}": taken and round(taken / mine, 2) for name, taken in others.items()
        }
        found[state] = {"ours": mine, **others, **ratios, "floor": round(bound, 3)}
        found[state]["times_floor"] = round(mine / bound, 2)
    return found


def _best(times: dict[str, Any], *words: str) -> float | None:
    found = [
        each["median"]
        for name, each in times.items()
        if "median" in each and name.startswith(words)
    ]
    return min(found, default=None)


def show(rows: list[dict[str, Any]]) -> None:
    heads = [f"{state}: {text}" for state in ("cold", "warm") for text in HEAD]
    print(f"{'':26}{'batch':>6}  " + "".join(f"{head:>16}" for head in heads))
    for row in rows:
        cells = "".join(
            f"{row['summary'][state][key] or '-':>16}" for state in ("cold", "warm") for key in KEYS
        )
        print(f"{row['layer']:26}{row['batch']:>6}  {cells}")


KEYS = ("ours", "dense", "cuSPARSE", "floor", "times_dense", "times_cuSPARSE", "times_floor")
HEAD = ("ours", "dense", "cuSPARSE", "floor", "x dense", "x cuSPARSE", "x floor")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument(
        "--time-limit", type=float, default=540, help="seconds after which no further row is begun"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--launches", type=int, default=64, help="of a graph, at least")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--layers", nargs="+", default=[""], help="parts of names")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="small shapes, in Triton's interpreter: tests this script",
    )
    options = parser.parse_args()
    began = time.monotonic()
    device = torch.device("cpu" if options.tiny else "cuda")
    cache = 1 if options.tiny else torch.cuda.get_device_properties(device).L2_cache_size
    torch.backends.cudnn.benchmark = True
    span = 0.0 if options.tiny else SPAN
    bench = Bench(
        device, getattr(torch, options.dtype), options.rounds, options.launches, span, cache
    )
    floor = floors(bench)
    print(floor, flush=True)
    rows: list[dict[str, Any]] = []
    chosen = [
        each
        for each in (TINY if options.tiny else LAYERS)
        if any(part in each.name for part in options.layers)
    ]
    for layer in chosen:
        made = None
        for batch in options.batches:
            if time.monotonic() - began > options.time_limit:
                print(f"out of time before {layer.name}, batch {batch}", flush=True)
                continue
            made = made or (pair := weights(layer, bench), ours(layer, bench, *pair))
            row = measure(layer, batch, made, bench)
            rows.append(row | {"summary": summary(row, floor)})
            print(
                layer.name,
                batch,
                json.dumps(rows[-1]["summary"]),
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
            save(rows, floor, options)
    show(rows)


def save(rows: list[dict[str, Any]], floor: dict[str, float], options: argparse.Namespace) -> None:
    result = {
        "title": "Sparse layers on a GPU, by graph replay: microseconds of one layer",
        "command": f"python benchmarks/gpu_layers.py --dtype {options.dtype} --rounds {options.rounds}",
        "machine": machine(),
        "versions": versions() | {"triton": version("triton")},
        "floors": floor,
        "rows": rows,
    }
    options.results.mkdir(exist_ok=True, parents=True)
    (options.results / "gpu-layers.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
