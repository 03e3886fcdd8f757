"""Sparse layers on a GPU: time by graph replay, against cuBLAS, cuSPARSE and cuDNN.

Every time is that of one launch in a graph of many, replayed; contenders take turns; medians. *Cold*: every launch has
its own copy of the weights, so many that none is in cache. *Warm*: all share one, as in a network that is asked again
and again. All but cuSPARSE compute the bias. The floor is the larger of an empty kernel's launch and
the time in which the packed layer's bytes could be copied.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from gpu_clock import Replay, Work, bandwidth, medians
from gpu_tiles import begun_early, candidates, conv_candidates
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.runtime.triton_conv import conv, pack_conv, reference_conv
from sparsegate.runtime.triton_linear import linear, load_kernels, pack, reference_linear
from sparsegate.runtime.triton_tile import Tile
from sparsegate.train.provenance import machine, versions

BATCHES = (1, 2, 4, 8, 16, 64)
MAX_COPIES = 256
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
    Layer("VGG-16 conv5_2", (512, 512, 3, 3), 0.882, plane=14),
    Layer("AlexNet fc7", (4096, 4096), 0.94),
    Layer("AlexNet fc8", (1000, 4096), 0.70),
    Layer("VGG-16 fc7", (4096, 4096), 0.9901),
    Layer("VGG-16 fc8", (1000, 4096), 0.897),
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
    cache: int
    """Bytes of the device's last cache."""
    max_tiles: int

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
            "cuDNN, channels last": ([weight.to(memory_format=last)], lambda w: F.conv2d(beside, w, bias, padding=1)),
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


def ours(layer: Layer, weight: Tensor, bias: Tensor) -> tuple[nn.Module, Callable[..., Tensor], Callable[..., Tensor]]:
    """The packed layer, what multiplies it, and what does so slowly."""
    if layer.plane:
        return pack_conv(weight, bias, relu=False, padding=(1, 1)), conv, reference_conv
    return pack(weight, bias, relu=False), linear, reference_linear


def is_right(found: Tensor, wanted: Tensor) -> bool:
    """No output was forgotten, and the error is rounding."""
    error = (found.double() - wanted.double()).norm() / wanted.double().norm().clamp(min=1e-30)
    return bool(error < TOLERANCE[found.dtype])


def tune(
    tiles: Iterable[Tile], start: Callable[[Tile], Work], right: Callable[[Tile], bool], bench: Bench, copies: int
) -> Any:
    """Microseconds by tile, the fastest first; the four fastest again, begun early. Tiles that fail are named."""
    found: dict[Tile, float] = {}
    failed: list[dict[str, Any]] = []

    def attempt(tile: Tile) -> None:
        try:
            if not right(tile):
                raise ArithmeticError("wrong outputs")
            replay = Replay(start(tile), copies=copies, launches=bench.launches)
            found[tile] = sorted(replay.microseconds() for _ in range(5))[2]
        except Exception as error:  # a tile may ask for more than the device has
            failed.append({"tile": asdict(tile), "error": f"{type(error).__name__}: {str(error)[:200]}"})

    for tile in tiles:
        attempt(tile)
    if bench.device.type == "cuda":
        for tile in sorted(found, key=found.__getitem__)[:4]:
            attempt(begun_early(tile))
    return sorted(found.items(), key=lambda each: each[1]), failed


def measure(layer: Layer, batch: int, made: Any, bench: Bench) -> dict[str, Any]:
    """One row of the table: the best tile, and everything again, cold and warm, in turns."""
    (weight, bias), (packed, multiply, reference) = made
    x = images(layer, batch, bench)
    wanted = reference(packed, x)
    num_bytes = sum(each.nbytes for each in packed.buffers())
    copies = [packed, *(copy.deepcopy(packed) for _ in range(bench.copies(num_bytes) - 1))]

    def right(tile: Tile) -> bool:
        torch.full_like(wanted, float("nan"))  # its memory is the next output's
        return is_right(multiply(packed, x, tile=tile), wanted)

    rows = getattr(packed, "rows", packed)
    tiles = conv_candidates() if layer.plane else candidates(rows.num_words / rows.out_features, batch)
    start = lambda tile: lambda number: multiply(copies[number], x, tile=tile)  # noqa: E731
    tuned, failed = tune(islice(tiles, bench.max_tiles), start, right, bench, len(copies))
    late, early = (next((tile for tile, _ in tuned if tile.early is each), None) for each in (False, True))
    works: dict[str, tuple[list[Any], Callable[..., Any]]] = dict(contenders(layer, x, weight, bias))
    works |= {
        name: (copies, lambda each, tile=tile: multiply(each, x, tile=tile))
        for name, tile in (("ours", late), ("ours, early", early), ("ours, default", None))
        if tile or name == "ours, default"
    }
    row = {"layer": layer.name, "batch": batch, "sparsity": layer.sparsity, "bytes": num_bytes, "copies": len(copies)}
    times = {name: _times(works, bench, cold=cold) for name, cold in (("cold", True), ("warm", False))}
    best = [{"microseconds": round(taken, 3), **asdict(tile)} for tile, taken in tuned[:6]]
    return row | times | {"tiles": best, "tiles_tried": len(tuned), "tiles_failed": failed}


def _times(works: dict[str, Any], bench: Bench, *, cold: bool) -> dict[str, Any]:
    replays, failed = {}, {}
    for name, (things, work) in works.items():
        every = _copies(things, bench) if cold else things[:1]
        try:
            launch = lambda number, every=every, work=work: work(every[number])  # noqa: E731
            replays[name] = Replay(launch, copies=len(every), launches=bench.launches)
        except Exception as error:  # cuSPARSE may refuse a dtype, or to be captured
            failed[name] = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    return medians(replays, bench.rounds) | failed


def _copies(things: list[Any], bench: Bench) -> list[Any]:
    if len(things) > 1 or isinstance(things[0], nn.Module):
        return things
    first = things[0]
    num_bytes = first.values().nbytes * 3 if first.layout == torch.sparse_csr else first.nbytes
    return things + [first.clone() for _ in range(bench.copies(num_bytes) - 1)]


def floors(bench: Bench) -> dict[str, float]:
    """What no kernel is faster than."""
    kernels, some = load_kernels("triton_kernels"), torch.zeros(1, device=bench.device)
    empty = {
        f"empty kernel, {programs} programs": Replay(
            lambda _, programs=programs: kernels.nothing[(programs,)](some), copies=1, launches=10 * bench.launches
        )
        for programs in (1, 1024)
    }
    found = {name: each["median"] for name, each in medians(empty, bench.rounds).items()}
    size = 1 << 31 if bench.device.type == "cuda" else 1 << 20
    return found | {"copy, GB/s": bandwidth(bench.device, size)}


def summary(row: dict[str, Any], floor: dict[str, float]) -> dict[str, Any]:
    """Ratios: how much faster than the best of each other library, and how far from the floor."""

    def best(times: dict[str, Any], word: str) -> float:
        return min((each["median"] for name, each in times.items() if word in name and "median" in each), default=0.0)

    bound = max(floor["empty kernel, 1 programs"], row["bytes"] / floor["copy, GB/s"] / 1e3)
    found: dict[str, Any] = {"floor": round(bound, 3)}
    for state in ("cold", "warm"):
        times = row[state]
        mine = best({name: each for name, each in times.items() if name != "ours, default"}, "ours")
        dense = min(filter(None, (best(times, "cuBLAS"), best(times, "cuDNN"))), default=0.0)
        found[state] = {
            "ours": mine,
            "default": best(times, "ours, default"),
            "dense": dense,
            "cuSPARSE": best(times, "cuSPARSE"),
            "times_dense": round(dense / mine, 2) if mine else 0.0,
            "times_cusparse": round(best(times, "cuSPARSE") / mine, 2) if mine else 0.0,
            "times_floor": round(mine / bound, 2),
        }
    return found


def show(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'':26}{'batch':>6}  " + "".join(f"{state + ': ' + text:>15}" for state in ("cold", "warm") for text in HEAD)
    )
    for row in rows:
        cells = "".join(f"{row['summary'][state][key]:>15}" for state in ("cold", "warm") for key in KEYS)
        print(f"{row['layer']:26}{row['batch']:>6}  {cells}  floor {row['summary']['floor']}  {_short(row['tiles'])}")


KEYS = ("ours", "default", "dense", "cuSPARSE", "times_dense", "times_floor")
HEAD = ("ours", "default", "dense", "cuSPARSE", "x dense", "x floor")


def _short(tiles: list[dict[str, Any]]) -> str:
    return " ".join(f"{key}={value}" for key, value in (tiles[0] if tiles else {}).items() if key != "microseconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--time-limit", type=float, default=540, help="seconds after which no further row is begun")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--launches", type=int, default=64, help="of a graph, at least")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--max-tiles", type=int, default=1000, help="tiles that are tried, at most")
    parser.add_argument("--layers", nargs="+", default=[""], help="parts of names")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--tiny", action="store_true", help="small shapes, in Triton's interpreter: tests this script")
    options = parser.parse_args()
    began = time.monotonic()
    device = torch.device("cpu" if options.tiny else "cuda")
    cache = 1 if options.tiny else torch.cuda.get_device_properties(device).L2_cache_size
    torch.backends.cudnn.benchmark = True
    bench = Bench(device, getattr(torch, options.dtype), options.rounds, options.launches, cache, options.max_tiles)
    floor = floors(bench)
    print(floor, flush=True)
    rows: list[dict[str, Any]] = []
    chosen = [each for each in (TINY if options.tiny else LAYERS) if any(part in each.name for part in options.layers)]
    for layer in chosen:
        made = None
        for batch in options.batches:
            if time.monotonic() - began > options.time_limit:
                print(f"out of time before {layer.name}, batch {batch}", flush=True)
                continue
            made = made or (pair := weights(layer, bench), ours(layer, *pair))
            row = measure(layer, batch, made, bench)
            rows.append(row | {"summary": summary(row, floor)})
            print(layer.name, batch, json.dumps(rows[-1]["summary"]), f"{time.monotonic() - began:.0f} s", flush=True)
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
