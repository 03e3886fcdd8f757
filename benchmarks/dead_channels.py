"""How many dead inner channels, heads and hidden units `shrink` cuts: a third of each is dead, in two ways.

`silent`: what computes them gives nothing. `unread`: nothing reads them. Writes
results/dead-channels.json.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from zoo import ZOO
from zoo_images import Plus

from sparsegate.bench import Given, first_tensor, machine, versions
from sparsegate.graph import shrink
from sparsegate_runtime.atomic import write_atomically

NETWORKS = ("resnet-18", "resnet-50", "mobilenet-v2", "bert", "llama", "vit")
LAYERS = (nn.Conv2d, nn.Linear)


def dead_units(model: nn.Module) -> list[tuple[nn.Module, nn.Module | None, nn.Module]]:
    """Inner layers, the norm behind each, and the layer that reads them."""
    found: list[tuple[nn.Module, nn.Module | None, nn.Module]] = []
    for module in model.modules():
        if isinstance(module, Plus) or _is_block(module):
            inner = (
                module.branches[-1 if _adds_last(module) else 0]
                if isinstance(module, Plus)
                else module
            )
            found += _inner(list(inner.modules()))
        elif type(module).__name__.endswith("MLP") and hasattr(module, "gate_proj"):
            found.append((module.gate_proj, None, module.down_proj))  # type: ignore[arg-type]
    names = dict(model.named_modules())
    for name, module in names.items():
        if name.endswith("intermediate.dense"):
            reader = names[name.replace("intermediate.dense", "output.dense")]
            found.append((module, None, reader))
        if name.endswith("mlp.fc1"):
            found.append((module, None, names[name.replace("fc1", "fc2")]))
    return list({id(unit[0]): unit for unit in found}.values())


def _adds_last(block: Plus) -> bool:
    return isinstance(block.branches[0], nn.Identity)


def _is_block(module: nn.Module) -> bool:
    """An inverted bottleneck that is not added to anything."""
    convs = [one for one in module.modules() if isinstance(one, nn.Conv2d)]
    plain = type(module) is nn.Sequential and len(convs) in (2, 3)
    return plain and any(conv.groups > 1 for conv in convs) and _only_parts(module)


def _only_parts(module: nn.Module) -> bool:
    parts = (nn.Sequential, nn.Conv2d, nn.BatchNorm2d, nn.ReLU6, nn.Identity)
    return all(isinstance(one, parts) for one in module.modules())


def _inner(modules: list[nn.Module]) -> list[tuple[nn.Module, nn.Module | None, nn.Module]]:
    convs = [one for one in modules if isinstance(one, nn.Conv2d) and one.groups == 1]
    norms = [one for one in modules if isinstance(one, nn.BatchNorm2d)]
    every = [one for one in modules if isinstance(one, nn.Conv2d)]
    return [(one, norms[every.index(one)], two) for one, two in pairwise(convs)]


def kill(way: str, maker: Any, norm: Any, reader: Any, model: nn.Module) -> int:
    """Lets every third unit die, and says how many that is."""
    dead = torch.arange(len(maker.weight)) % 3 == 0
    if way == "unread":
        reader.weight.data[:, dead] = 0
    elif norm is None:
        maker.weight.data[dead] = 0
        if maker.bias is not None:
            maker.bias.data[dead] = 0
    else:
        norm.weight.data[dead], norm.bias.data[dead] = 0, 0
        for module in model.modules():  # those of the depthwise convolution behind it
            if isinstance(module, nn.Sequential) and len(module) > 1 and _follows(module, norm):
                depth = module[1]
                depth[1].weight.data[dead], depth[1].bias.data[dead] = 0, 0
    return int(dead.sum())


def _follows(block: nn.Sequential, norm: nn.Module) -> bool:
    first, second = block[0], block[1]
    return (
        isinstance(first, nn.Sequential)
        and isinstance(second, nn.Sequential)
        and len(first) > 1
        and first[1] is norm
        and isinstance(second[0], nn.Conv2d)
        and second[0].groups > 1
    )


def trained_norms(model: nn.Module) -> None:
    """Norms as after training."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_()


@torch.no_grad()
def row(name: str, way: str, seed: int) -> dict[str, Any]:
    """One network with a third of its inner units dead."""
    torch.manual_seed(seed)
    model, example = ZOO[name].make().eval().requires_grad_(False), ZOO[name].inputs(1)
    if hasattr(model, "config"):
        model.config.use_cache = False
    trained_norms(model)
    units = dead_units(model)
    before = {id(one): len(one.weight) for one, _, _ in units}  # type: ignore[arg-type]
    dead = sum(kill(way, *each, model) for each in units)
    paths = {id(module): path for path, module in model.named_modules()}
    began = time.perf_counter()
    smaller = shrink(model, example)
    seconds = time.perf_counter() - began
    left = {id(one): len(smaller.get_submodule(paths[id(one)]).weight) for one, _, _ in units}  # type: ignore[arg-type]
    given = Given(ZOO[name].inputs(2))
    wanted, got = (first_tensor(_run(each, given)) for each in (model, smaller))
    return {
        "network": name,
        "way": way,
        "layers": len(units),
        "units": sum(before.values()),
        "dead": dead,
        "cut": sum(before.values()) - sum(left.values()),
        "parameters": _size(model),
        "parameters_left": _size(smaller),
        "difference": float((got - wanted).abs().max() / wanted.abs().max()),
        "seconds": round(seconds, 2),
    }


def _run(model: nn.Module, given: Given) -> Tensor:
    return given.call(model)(*given.tensors)


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Writes a row for every network and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    default = Path(__file__).parents[1] / "results" / "dead-channels.json"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    rows = []
    for name in NETWORKS:
        for way in ("silent", "unread"):
            rows.append(row(name, way, options.seed))
            print(rows[-1], flush=True)
    record = {
        "title": "Dead inner channels and hidden units that shrink cuts, of every third",
        "command": shlex.join(["python", "benchmarks/dead_channels.py", *sys.argv[1:]]),
        "seed": options.seed,
        "machine": machine(),
        "versions": versions("torch", "transformers"),
        "rows": rows,
    }
    write_atomically(options.out, json.dumps(record, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
