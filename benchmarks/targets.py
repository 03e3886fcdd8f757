"""Trains networks with nothing but a target and records whether each was met: python benchmarks/targets.py lenet300."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparsegate.data import DATASETS
from sparsegate.methods import LearnedGates
from sparsegate.models import MODELS
from sparsegate.record import Record
from sparsegate.target import Target
from sparsegate.train import Run, machine, train, versions

KEEPS = (0.003, 0.01, 0.05, 0.2)
OTHERS = {"max_drop": 0.3, "bytes": 12_000, "weights": 3000}  # longest first
CLOSE = 0.005  # of the asked weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a registered model; the settings of its runs are the defaults, but for epochs")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--keeps", type=float, nargs="*", default=list(KEEPS))
    parser.add_argument("--others", nargs="*", choices=list(OTHERS), default=list(OTHERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    if options.model not in MODELS or (options.data not in DATASETS and not Path(options.data).exists()):
        print(f"left out: {options.model} on {options.data} is not registered")
        return
    targets = [Target(**{name: OTHERS[name]}) for name in options.others] + [
        Target(keep=keep) for keep in options.keeps
    ]
    runs = [_run(options, target, seed) for seed in options.seeds for target in targets]
    began = time.perf_counter()  # saved twice: the second half may be cut off
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(_row, runs, [options.folder] * len(runs)))
        _save(options, rows, time.perf_counter() - began)
        again = list(
            pool.map(_row, [_held(run, row) for run, row in zip(runs, rows, strict=True)], [options.folder] * len(runs))
        )
    for row, other in zip(rows, again, strict=True):
        row["with the price held"] = {name: other[name] for name in ("kept", "validation", "test")}
    _save(options, rows, time.perf_counter() - began)


def _run(options: argparse.Namespace, target: Target, seed: int) -> Run[LearnedGates]:
    method = LearnedGates(target=target)
    return Run(model=options.model, data=options.data, epochs=options.epochs, seed=seed, method=method)


def _held(run: Run[LearnedGates], row: dict[str, Any]) -> Run[LearnedGates]:
    return dataclasses.replace(run, method=LearnedGates(target=Target(price=row["price"])))


def _row(run: Run[Any], folder: Path) -> dict[str, Any]:
    record = train(run, folder=folder)
    target = run.method.target
    row = {
        "asked": {target.wish: getattr(target, target.wish)},
        "seed": run.seed,
        "kept": record.kept,
        "total": record.total,
        "price": float(re.findall(r"the price was ([\d.e+-]+)", " ".join(record.notes))[-1]),
        "validation": record.validation,
        "test": record.test,
        "layers": {layer.name: layer.kept for layer in record.layers},
        "seconds": record.seconds,
        "notes": [note for note in record.notes if "the price was" not in note],
    }
    return {**row, **_met(target, record, folder)}


def _met(target: Target, record: Record, folder: Path) -> dict[str, Any]:
    """Whether a target was met, and what was compared."""
    if target.price is not None:
        return {}
    if target.bytes is not None:
        size = (folder / record.name / "network.sg").stat().st_size
        return {"met": size <= target.bytes, "bytes": size}
    if target.max_drop is not None:
        baseline = record.run["method"]["target"]["baseline"]
        return {"met": record.validation >= baseline - target.max_drop - 1e-9, "baseline": baseline}
    wanted = target.weights or (target.keep or 0.0) * record.total
    return {"met": abs(record.kept / wanted - 1) <= CLOSE, "off by": round(record.kept / wanted - 1, 6)}


def _save(options: argparse.Namespace, rows: list[dict[str, Any]], seconds: float) -> None:
    seeds = " ".join(map(str, options.seeds))
    words = (
        f"python benchmarks/targets.py {options.model} --data {options.data} --epochs {options.epochs} --seeds {seeds}"
    )
    result = {
        "title": "Networks trained with nothing but a target",
        "command": f"{words} --processes {options.processes}",
        "machine": machine(),
        "versions": versions(),
        "model": options.model,
        "data": options.data,
        "epochs": options.epochs,
        "seconds": round(seconds, 1),
        "met": f"{sum(row['met'] for row in rows)} of {len(rows)}",
        "rows": rows,
    }
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"targets-{options.model}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    for row in rows:
        print({name: row[name] for name in row if name not in ("layers", "notes")})
    print(result["met"])


if __name__ == "__main__":
    main()
