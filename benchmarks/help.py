"""Shows whether a teacher and an average of weights help small networks: python benchmarks/help.py.

Every network ends with the same number of weights: without help, with a teacher, with an average,
with both. All of one kind are trained as one by the batched trainer. Differences are between
members of one seed that differ in nothing else; the verdict is by validation accuracy. What has
ended is not trained again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

import safetensors.torch
from deadline import Deadline, ManyDeadline
from torch import nn

from sparsegate.price import Penalty
from sparsegate_lab.batched import Member, train_many
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.record import Record
from sparsegate_lab.study import Summary
from sparsegate_lab.train import Run, empty_network, train

# Weights to keep, and first prices without a teacher and with one, whose loss is larger; the price
# is then steered.
SIZES = {"lenet5": (1435, 12.0, 19.0), "lenet300": (4000, 4.0, 6.0)}
HELPS = ("none", "teacher", "average", "both")
PAIRS = {
    "teacher": (("none", "teacher"), ("average", "both")),
    "average": (("none", "average"), ("teacher", "both")),
}
DECAY, SHARE, TEMPERATURE = 0.999, 0.5, 2.0


def main() -> None:
    options = parse()
    end = time.time() + options.limit
    result: dict[str, Any] = {
        "title": "Small networks with help and without",
        "command": words(options),
    }
    result |= {
        "teacher": {"run": "lenet5, dense", "share": SHARE, "temperature": TEMPERATURE},
        "average": DECAY,
    }
    path = options.results / "help.json"
    result["parts"] = known(path, result["command"])
    for model in options.models:
        if model in (each["model"] for each in result["parts"]):
            continue
        members = plan(options, model)
        taught = {"teacher": teacher(options, end), "watch": ManyDeadline(end)}
        records = train_many(members, folder=options.folder, command=result["command"], **taught)
        result["parts"].append(part(model, options, records))
        path.write_text(json.dumps(result, indent=1) + "\n")
        print({name: result["parts"][-1][name] for name in ("model", "what helps")}, flush=True)


def known(path: Path, command: str) -> list[dict[str, Any]]:
    """The networks that an earlier call of the same command was ready with."""
    before = json.loads(path.read_text()) if path.exists() else {}
    return before["parts"] if before.get("command") == command else []


def parse(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument(
        "--shift",
        type=int,
        default=2,
        help="in pixels; the teacher is asked about every shift first",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="seconds after which nothing goes on"
    )
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    return parser.parse_args(given)


def teacher(options: argparse.Namespace, end: float) -> nn.Module:
    """A dense LeNet-5, for both networks; trained if it is not there."""
    run = Run(data=options.data, epochs=12, seed=100, method=Dense())
    record = train(run, folder=options.folder, watch=Deadline(end))
    network = empty_network(run)
    network.load_state_dict(
        safetensors.torch.load_file(options.folder / record.name / "network.safetensors")
    )
    return network


def plan(options: argparse.Namespace, model: str) -> list[Member]:
    """Every help with every seed."""
    most, alone, taught = SIZES[model]
    run = Run(model=model, data=options.data, epochs=options.epochs, shift=options.shift)
    found = []
    for name in HELPS:
        with_teacher, with_average = name in ("teacher", "both"), name in ("average", "both")
        method = LearnedGates(penalty=Penalty(count=taught if with_teacher else alone), freeze=0.75)
        settings: dict[str, Any] = {"average": DECAY} if with_average else {}
        settings |= {"share": SHARE, "temperature": TEMPERATURE} if with_teacher else {}
        found += [
            Member(dataclasses.replace(run, seed=seed, method=method), most, **settings)
            for seed in options.seeds
        ]
    return found


def part(model: str, options: argparse.Namespace, records: list[Record]) -> dict[str, Any]:
    """What came of one network: every help, and what each made better."""
    seeds = len(options.seeds)
    found = {name: records[place * seeds : (place + 1) * seeds] for place, name in enumerate(HELPS)}
    return {
        "model": model,
        "weights": SIZES[model][0],
        "epochs": options.epochs,
        "gpu": records[0].machine["gpu"],
        "seconds of all": records[0].seconds,
        "what helps": {name: effect(name, found) for name in PAIRS},
        "rows": {name: row(each) for name, each in found.items()},
    }


def effect(name: str, found: dict[str, list[Record]]) -> dict[str, Any]:
    """What a help adds to accuracy, in points: the mean over the seeds, and its standard error."""
    said: dict[str, Any] = {}
    for split in ("validation", "test"):
        gains = Summary.of(_gains(name, found, split))
        seeds = len(found["none"])
        said[split] = {
            "gain": gains.mean,
            "standard error": round(gains.spread / math.sqrt(seeds), 4),
        }
    gain, error = said["validation"]["gain"], said["validation"]["standard error"]
    verdict = (
        "helps"
        if gain > 2 * error
        else "hurts"
        if gain < -2 * error
        else "makes no difference that can be seen"
    )
    return {**said, "verdict": verdict}


def _gains(name: str, found: dict[str, list[Record]], split: str) -> list[float]:
    """What a help adds with every seed: the mean of its two pairs, which are not independent of each other."""
    each = [
        [getattr(record, split) for record in found[one]] for pair in PAIRS[name] for one in pair
    ]
    return [
        (first - without + second - beside) / 2
        for without, first, beside, second in zip(*each, strict=True)
    ]


def row(records: list[Record]) -> dict[str, Any]:
    return {
        **{
            name: vars(Summary.of([getattr(each, name) for each in records]))
            for name in ("validation", "test")
        },
        "kept": [record.kept for record in records],
        "validation of every seed": [record.validation for record in records],
        "test of every seed": [record.test for record in records],
    }


def words(options: argparse.Namespace) -> str:
    """The command that makes the file."""
    said = f"python benchmarks/help.py --epochs {options.epochs} --shift {options.shift} --data {options.data}"
    return f"{said} --models {' '.join(options.models)} --seeds {' '.join(map(str, options.seeds))}"


if __name__ == "__main__":
    main()
