"""Trains networks with nothing but a target and records whether each was met: python benchmarks/targets.py lenet300.

One part of results/targets.json for every network, data and number of epochs; the file counts the
targets of all of them. Runs that have ended are not trained again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparsegate.target import Target
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, train

KEEPS = (0.003, 0.01, 0.05, 0.2)
OTHERS: dict[str, Any] = {"max_drop": 0.3, "bytes": 12_000, "weights": 3000}  # longest first
TRAVEL = 10.0  # a price can be held only if gates move by it rather than start in an order
CLOSE = 0.005  # of the asked weights
AGAIN = ("price", "path")


def main() -> None:
    options = parse()
    runs = plan(options)
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(row, runs, [options.folder] * len(runs)))
        save(options, rows)  # saved twice: the second half may be cut off
        for name in options.again:
            again = [
                dataclasses.replace(run, method=held(name, each))
                for run, each in zip(runs, rows, strict=True)
            ]
            for each, other in zip(
                rows, pool.map(row, again, [options.folder] * len(runs)), strict=True
            ):
                each[f"with the {name} held"] = {
                    name: other[name] for name in ("kept", "validation", "test")
                }
    save(options, rows)


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model",
        help="a registered model; the settings of its runs are the defaults, but for epochs",
    )
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--keeps", type=float, nargs="*", default=list(KEEPS))
    parser.add_argument(
        "--others", nargs="*", choices=list(OTHERS), default=[], help="for the first seed, too"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument(
        "--again",
        nargs="*",
        choices=AGAIN,
        default=[],
        help="repeat each run with what it found held",
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    return parser.parse_args(words)


def plan(options: argparse.Namespace) -> list[Run[LearnedGates]]:
    """The runs: others first, since they take longest."""
    others = [
        (options.seeds[0], Target(**{name: OTHERS[name]}, travel=TRAVEL)) for name in options.others
    ]
    keeps = [
        (seed, Target(keep=keep, travel=TRAVEL)) for seed in options.seeds for keep in options.keeps
    ]
    run = Run(model=options.model, data=options.data, epochs=options.epochs)
    return [
        dataclasses.replace(run, seed=seed, method=LearnedGates(target=target))
        for seed, target in [*others, *keeps]
    ]


def held(name: str, row: dict[str, Any]) -> LearnedGates:
    """The method that holds what another run found."""
    return LearnedGates(target=Target(**{name: tuple(row[name]) if name == "path" else row[name]}))


def row(run: Run[Any], folder: Path) -> dict[str, Any]:
    """Trains a run; says what came of it."""
    record = train(run, folder=folder)
    target, said = run.method.target, " ".join(record.notes)
    found = {
        "asked": {target.wish: getattr(target, target.wish)},
        "seed": run.seed,
        "kept": record.kept,
        "total": record.total,
        "price": float(re.findall(r"the price was ([\d.e+-]+)", said)[-1]),
        "path": [
            float(price) for price in re.findall(r"--target\.path ([\d.e+ -]+)", said)[-1].split()
        ],
        "validation": record.validation,
        "test": record.test,
        "layers": {layer.name: layer.kept for layer in record.layers},
        "gpu": record.machine["gpu"],
        "torch": record.versions["torch"],
        "notes": [
            note for note in record.notes if "price was" not in note and "target.path" not in note
        ],
    }
    return {**found, **met(target, record, folder)}


def met(target: Target, record: Record, folder: Path) -> dict[str, Any]:
    """Whether a target was met, and what was compared."""
    if target.wish in AGAIN:
        return {}
    if target.bytes is not None:
        size = (folder / record.name / "network.sg").stat().st_size
        return {"met": size <= target.bytes, "bytes": size}
    if target.max_drop is not None:
        baseline = record.run["method"]["target"]["baseline"]
        return {"met": record.validation >= baseline - target.max_drop - 1e-9, "baseline": baseline}
    wanted = target.weights or (target.keep or 0.0) * record.total
    return {
        "met": abs(record.kept / wanted - 1) <= CLOSE,
        "off by": round(record.kept / wanted - 1, 6),
    }


def save(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Puts a part into the file, in the place of the one that this network had."""
    path = options.results / "targets.json"
    old = json.loads(path.read_text())["parts"] if path.exists() else []
    part = {name: getattr(options, name) for name in ("model", "data", "epochs")}
    others = [each for each in old if any(each[name] != part[name] for name in part)]
    new = {**part, "command": words(options), "met": count(rows), "rows": rows}
    parts = sorted([*others, new], key=lambda each: (each["model"], each["data"], each["epochs"]))
    every = [each for part in parts for each in part["rows"]]
    whole = {
        "title": "Networks trained with nothing but a target",
        "met": count(every),
        "parts": parts,
    }
    options.results.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n")
    for each in rows:
        print({name: each[name] for name in each if name not in ("layers", "notes", "path")})
    print(f"{options.model}: {count(rows)}; in all: {count(every)}")


def count(rows: list[dict[str, Any]]) -> str:
    return f"{sum(row['met'] for row in rows)} of {len(rows)}"


def words(options: argparse.Namespace) -> str:
    """The command that makes this part."""
    said = f"python benchmarks/targets.py {options.model} --data {options.data} --epochs {options.epochs}"
    for name in ("keeps", "others", "seeds", "again"):
        given = " ".join(map(str, getattr(options, name)))
        said += f" --{name} {given}" if given else ""
    return said


if __name__ == "__main__":
    main()
