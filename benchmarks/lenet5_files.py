"""The smallest files of LeNet-5: trains, removes dead paths, quantises, tunes, packs, and measures every stage."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

from sparsegate.compress import compress, encode_sg, load, position_entropy, quantise_, remove_dead_paths, tune_
from sparsegate.data import Shift, mnist
from sparsegate.methods import LearnedGates
from sparsegate.models import LeNet5
from sparsegate.penalty import Penalty
from sparsegate.reproduce import RECIPES
from sparsegate.study import Summary
from sparsegate.train import Batches, Run, accuracy, train
from sparsegate.train.provenance import machine, versions

NETWORKS = {
    "paper's size": Run(epochs=40, method=LearnedGates(penalty=Penalty(count=0.9))),
    "smallest": RECIPES["lenet5-method1"](),
}
BITS = (5, 4, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=5, help="of tuning the values")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    jobs = [(name, seed, options.epochs, options.folder) for name in NETWORKS for seed in options.seeds]
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        stages = list(pool.map(_measured, *zip(*jobs, strict=True)))
    found = {f"{name} {seed}": each for (name, seed, _, _), each in zip(jobs, stages, strict=True)}
    result = {
        "title": "The smallest files of LeNet-5 on MNIST, everything counted",
        "command": f"python benchmarks/lenet5_files.py --seeds {' '.join(map(str, options.seeds))} --epochs "
        f"{options.epochs} --processes {options.processes}",
        "machine": machine(),
        "versions": versions(),
        "summary": {name: _summary(name, found) for name in NETWORKS},
        "networks": found,
    }
    options.results.mkdir(exist_ok=True)
    (options.results / "lenet5-files.json").write_text(json.dumps(result, indent=1) + "\n")
    for name, each in result["summary"].items():  # type: ignore[attr-defined]
        for stage, numbers in each.items():
            print(name, stage, json.dumps({key: value["mean"] for key, value in numbers.items()}))


def _summary(name: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    each = [stages for key, stages in found.items() if key.startswith(name)]
    return {
        stage: {key: vars(Summary.of([one[stage][key] for one in each])) for key in each[0][stage]} for stage in each[0]
    }


def _measured(name: str, seed: int, epochs: int, folder: Path) -> dict[str, dict[str, float]]:
    """What every stage of one network takes and how accurate it is."""
    run = dataclasses.replace(NETWORKS[name], seed=seed)
    train(run, folder=folder)
    accelerator = Accelerator(cpu=not torch.accelerator.is_available())
    model = load(folder / run.name / "network.sg").into(LeNet5())
    stages = {"lossless": _stage(model, accelerator)}
    remove_dead_paths(model, torch.zeros(1, 1, 28, 28))
    stages["dead paths removed"] = _stage(model, accelerator)
    for bits in BITS:
        few = copy.deepcopy(model)
        quantise_(few, bits=bits)
        stages[f"{bits} bits"] = _stage(few, accelerator)
        _tune(few, run, epochs, accelerator)
        stages[f"{bits} bits, tuned"] = _stage(few, accelerator)
    return stages


def _tune(model: nn.Module, run: Run[Any], epochs: int, accelerator: Accelerator) -> None:
    data = mnist()
    split = data.train.to(accelerator.device)
    batches = Batches(split, data.normalise, Shift(run.shift), run.batch_size, run.seed)
    each = (batches.epoch(number) for number in range(epochs))
    tune_(model.to(accelerator.device), (epoch[place] for epoch in each for place in range(len(batches))))
    model.cpu()


def _stage(model: nn.Module, accelerator: Accelerator) -> dict[str, float]:
    packed, data = compress(model), mnist()
    content, cost = encode_sg(packed.entries, packed.same)
    entries = packed.entries.values()
    ideal = sum(position_entropy(entry.plan.total, entry.kept) + 32 * entry.kept for entry in entries) / 8
    splits = {name: getattr(data, name).to(accelerator.device) for name in ("validation", "test")}
    there = copy.deepcopy(model).to(accelerator.device)
    return {
        "sg_bytes": len(content),
        "safetensors_bytes": packed.cost.total // 8,
        "value_bits": cost.values,
        "index_bits": cost.indices,
        "other_bits": cost.other,
        "of_values_and_position_entropy": round(len(content) / ideal, 4),
        "weights": sum(entry.kept for entry in entries if len(entry.plan.shape) >= 2),
        "biases": sum(entry.kept for entry in entries if len(entry.plan.shape) < 2),
        **{name: accuracy(there, split, data.normalise, accelerator) for name, split in splits.items()},
    }


if __name__ == "__main__":
    main()
