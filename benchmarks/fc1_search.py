"""Looks for the setting in which the paper's table of lambdas appears: python benchmarks/fc1_search.py.

Members of one network, draw and learning rate are trained as one by the batched trainer, with one
seed. What was found before is kept, so it can be stopped and started. No test image is read: what
counts is sparsity and variance.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from deadline import LateError, ManyDeadline

from sparsegate_lab.batched import ManyLoop, Member
from sparsegate_lab.data import Dataset, mnist
from sparsegate_lab.paper import paper
from sparsegate_lab.paper.exhibits.lambda_table import COLUMNS, NEAR_HALF, PAIRS
from sparsegate_lab.paper.fc1_runs import DRAWS, fc1_gated
from sparsegate_lab.train import machine, versions

NUMBERS = paper.LAMBDA.numbers()
NUM_GATES = 400_000  # of fc1
STARTS = {
    "lenet5-lasagne": (0.48, 0.485, 0.49, 0.494, 0.497, 0.5, 0.505),
    "lenet5": (0.497, 0.5, 0.505),
}
FAR = (0.3, 0.7, 0.9)  # starts at which only (1, 1) is tried, as the figure of starts does
TITLE = "Where Table 5 appears: gates on fc1 alone, over network, start and learning rate, one seed each."
Row = dict[str, Any]


def main() -> None:
    options = parse()
    end = time.time() + options.limit
    data, rows = shortened(mnist(), options.images), recorded(options.out)
    longest = 0.0
    for name, members in batches(options):
        left = [member for member in members if key(member) not in map(row_key, rows)]
        if not left or time.time() + longest > end:
            continue
        began = time.monotonic()
        rows += trained(name, left, data, end)
        longest = max(longest, time.monotonic() - began)
        print(f"{name}: {len(left)} members, {time.monotonic() - began:.0f} s", flush=True)
        write(options, rows)
    for line in ranking(rows)[:12]:
        print(line["words"], flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[70.0, 100.0, 50.0, 140.0], help="of the gates"
    )
    parser.add_argument("--models", nargs="+", default=list(STARTS), choices=list(STARTS))
    parser.add_argument("--starts", type=float, nargs="+", help="other than the usual ones")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="seconds after which no batch begins"
    )
    parser.add_argument(
        "--images", type=int, help="train on fewer than all, to see that everything works"
    )
    parser.add_argument("--out", type=Path, default=Path("results/fc1-search.json"))
    return parser.parse_args()


def batches(options: argparse.Namespace) -> Iterator[tuple[str, list[Member]]]:
    """What is trained as one, by name, the most promising first."""
    for model in options.models:
        for rate in options.rates:
            for draw in DRAWS:
                runs = [
                    fc1_gated(bimodal=pair[0], count=pair[1], draw=draw, start=start, model=model)
                    for start in sorted({*(options.starts or STARTS[model]), *FAR})
                    for pair in (PAIRS.values() if start not in FAR else [(1.0, 1.0)])
                ]
                methods = [dataclasses.replace(run.method, gate_lr=rate) for run in runs]
                pairs = zip(runs, methods, strict=True)
                each = [
                    dataclasses.replace(run, epochs=options.epochs, method=method)
                    for run, method in pairs
                ]
                yield f"{model} {rate:g} {draw} {options.epochs}", [Member(run) for run in each]


def trained(name: str, members: list[Member], data: Dataset, end: float) -> list[Row]:
    """A row for every member."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loop = ManyLoop(members, data, device, watch=ManyDeadline(end))
    try:
        loop.train()
    except LateError:
        return []
    return [
        row(name, member, loop.epochs[place][-1], round(loop.seconds, 1))
        for place, member in enumerate(members)
    ]


def key(member: Member) -> tuple[Any, ...]:
    """What tells members apart."""
    run, method = member.run, member.run.method
    settings = run.model, method.draw, method.start, method.gate_lr, run.epochs
    return *settings, method.penalty.bimodal, method.penalty.count


def row_key(row: Row) -> tuple[Any, ...]:
    """The same of a row."""
    return tuple(
        row[name] for name in ("model", "draw", "start", "gate_lr", "epochs", "bimodal", "count")
    )


def row(name: str, member: Member, last: Any, seconds: float) -> Row:
    method, ungated = member.run.method, 430_500 - NUM_GATES
    return {
        **{"batch": name, "model": member.run.model, "draw": method.draw, "start": method.start},
        **{"gate_lr": method.gate_lr, "epochs": member.run.epochs},
        **{"bimodal": method.penalty.bimodal, "count": method.penalty.count},
        "closed": round(100 * (1 - (last.kept - ungated) / NUM_GATES), 2),
        "mean sparsity": round(100 * (1 - last.keep), 2),
        "variance": round(100 * last.variance, 2),
        "validation": last.validation,
        "seconds of the batch": seconds,
    }


def ranking(rows: list[Row]) -> list[Row]:
    """Every setting that has all four pairs by both draws: where most agrees first.

    Then the nearest.
    """
    found = []
    for key in dict.fromkeys(
        (row["model"], row["start"], row["gate_lr"], row["epochs"]) for row in rows
    ):
        mine = [
            row
            for row in rows
            if (row["model"], row["start"], row["gate_lr"], row["epochs"]) == key
        ]
        numbers = {
            (name, draw): _of(mine, pair, draw) for name, pair in PAIRS.items() for draw in DRAWS
        }
        if all(numbers.values()):
            found.append(_judged(key, {pair: each for pair, each in numbers.items() if each}))
    return sorted(found, key=lambda each: (-each["agree"] - each["hold"], each["distance"]))


def _of(rows: list[Row], pair: tuple[float, float], draw: str) -> Row | None:
    return next(
        (row for row in rows if (row["bimodal"], row["count"]) == pair and row["draw"] == draw),
        None,
    )


def _judged(key: tuple[Any, ...], numbers: dict[tuple[str, Any], Row]) -> Row:
    """How many of the twelve numbers agree and of four sentences hold, and how far the numbers are, in tolerances."""
    found = {
        (name, column): numbers[name, COLUMNS[column][0]][said]
        for name in PAIRS
        for column, said in zip(COLUMNS, ("closed", "mean sparsity", "variance"), strict=True)
    }
    off = [
        (found[each.row, each.column] - each.value) / COLUMNS[each.column][2].within
        for each in NUMBERS
    ]
    t, s, v = ({name: found[name, column] for name in PAIRS} for column in COLUMNS)
    hold = [
        max(abs(t["(0, 0)"] - 50), abs(s["(0, 0)"] - 50)) <= NEAR_HALF,
        all(97.5 <= t[name] < 99.5 for name in ("(1, 1)", "(0, 1)")),
        v["(1, 0)"] < v["(0, 0)"] and v["(1, 1)"] < v["(0, 1)"],
        all(t[name] > s[name] for name in PAIRS),
    ]
    agree, distance = (
        sum(abs(each) <= 1 for each in off),
        math.sqrt(sum(each**2 for each in off) / len(off)),
    )
    setting = dict(zip(("model", "start", "gate_lr", "epochs"), key, strict=True))
    ours = " ".join(f"{t[name]:.1f}/{s[name]:.1f}/{v[name]:.1f}" for name in PAIRS)
    words = f"{' '.join(map(str, key))}: {agree} agree, {sum(hold)} hold, {distance:.2f}; {ours}"
    return {
        **setting,
        "agree": agree,
        "hold": sum(hold),
        "distance": round(distance, 3),
        "words": words,
    }


def shortened(data: Dataset, images: int | None) -> Dataset:
    if images is None:
        return data
    return Dataset(data.train.part(0, images), data.validation.part(0, images), data.test)


def recorded(path: Path) -> list[Row]:
    return json.loads(path.read_text())["rows"] if path.exists() else []


def write(options: argparse.Namespace, rows: list[Row]) -> None:
    options.out.parent.mkdir(parents=True, exist_ok=True)
    ranked = [
        {name: value for name, value in each.items() if name != "words"} for each in ranking(rows)
    ]
    before = (
        json.loads(options.out.read_text())["command"].split("; ") if options.out.exists() else []
    )
    now = shlex.join(["python", "benchmarks/fc1_search.py", *sys.argv[1:]])
    command = "; ".join(dict.fromkeys([*before, now]))
    content = {"title": TITLE, "command": command, "machine": machine(), "versions": versions()}
    options.out.write_text(
        json.dumps({**content, "ranking": ranked, "rows": rows}, indent=0) + "\n"
    )


if __name__ == "__main__":
    main()
