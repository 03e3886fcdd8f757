"""Times the networks of the zoo in every engine that is installed, one network after the other, engines in turns.

python benchmarks/race.py [--only NAME ...] [--batches 1 16] [--threads 1] [--deepsparse PATH/bin/python] [--out FILE]
                          [--networks FILE.py]

Writes results/zoo.json and a picture next to it. `--networks` takes the networks of another file,
whose dictionary NETWORKS has (make, inputs by name for a batch, fraction of zeros) by name. An engine that fails, or gives something else, is
a result too. Run it alone on the machine. DeepSparse needs an environment of its own; see
benchmarks/cpu_speed.py.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from speed_ways import DeepSparse, Way, in_process, medians
from torch import Tensor, nn
from zoo import ZOO, Case, networks_of

from sparsegate.bench import BASELINE, ENGINES, OURS, Flat, Given, machine, save_plot, versions
from sparsegate.runtime import sparse
from sparsegate.text_table import aligned
from sparsegate_runtime.atomic import write_atomically

RIVAL = "deepsparse"
ENOUGH = 1e-3
"""An engine whose outputs are further away than this fraction of the largest is wrong."""
Row = dict[str, Any]


class Race:
    """One network at one batch size in all engines."""

    def __init__(
        self, zoo: dict[str, Case], options: argparse.Namespace, rival: DeepSparse | None
    ) -> None:
        self.zoo, self.options, self.rival = zoo, options, rival
        found = [name for name in options.engines if ENGINES[name].available()]
        self.engines = [name for name in found if name not in (BASELINE, RIVAL)]

    def row(self, name: str, batch: int) -> Row:
        """Milliseconds of every engine, and what went wrong."""
        torch.manual_seed(self.options.seed)
        model, given = self.zoo[name].model(), Given(self.zoo[name].inputs(batch))
        notes: dict[str, str] = {}
        began = time.perf_counter()
        ways = {BASELINE: self._here(given.call(model), given)}
        self._add(ways, notes, OURS, lambda: self._ours(model, given))
        planning = time.perf_counter() - began
        for engine in self.engines:
            self._add(ways, notes, engine, lambda engine=engine: self._other(engine, model, given))
        if self.rival is not None:
            self._add(ways, notes, RIVAL, lambda: self._rival(name, model, given))
        wanted = ways[BASELINE].output
        gaps = {other: _gap(way.output, wanted) for other, way in ways.items()}
        for other, gap in gaps.items():
            if not gap <= ENOUGH:
                notes[other] = f"wrong by {gap:.1e} of the largest output"
                del ways[other]
        times = medians(ways, seconds=self.options.seconds)
        return {
            "network": name,
            "batch": batch,
            "zeros": round(_zeros(model), 4),
            "milliseconds": {other: round(1e3 * taken, 4) for other, taken in times.items()},
            "differences": {other: gaps[other] for other in ways if other != BASELINE},
            "planning_seconds": round(planning, 2),
            "notes": notes,
            **_ratios(times),
        }

    def _add(
        self, ways: dict[str, Way], notes: dict[str, str], name: str, make: Callable[[], Way]
    ) -> None:
        try:
            ways[name] = make()
        except Exception as error:  # another package's error must not lose the rest of the table
            notes[name] = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:160]}"

    def _here(self, forward: Callable[..., Tensor], given: Given) -> Way:
        return in_process(lambda _: forward(*given.tensors), given.tensors[0])

    def _ours(self, model: nn.Module, given: Given) -> Way:
        return self._here(given.call(sparse(model, given.example)), given)

    def _other(self, engine: str, model: nn.Module, given: Given) -> Way:
        flat = Flat(model, given).eval()
        with torch.inference_mode():
            forward = ENGINES[engine].prepare(flat, *given.tensors, threads=self.options.threads)
        return self._here(forward, given)

    def _rival(self, name: str, model: nn.Module, given: Given) -> Way:
        if len(given.tensors) > 1:
            raise ValueError("this script gives it one tensor only")
        assert self.rival is not None
        flat = Flat(model, Given(self.zoo[name].inputs(1))).eval()
        return self.rival.prepare(flat, given.tensors[0], threads=self.options.threads)


def _ratios(seconds: dict[str, float]) -> dict[str, float | None]:
    """How many times faster ours is than eager, than the best living engine, and than DeepSparse."""
    if OURS not in seconds:
        return {"over_eager": None, "over_best": None, "over_deepsparse": None}
    ours = seconds[OURS]
    best = min(value for name, value in seconds.items() if name not in (OURS, RIVAL))
    rival = seconds.get(RIVAL)
    return {
        "over_eager": round(seconds[BASELINE] / ours, 3),
        "over_best": round(best / ours, 3),
        "over_deepsparse": round(rival / ours, 3) if rival else None,
    }


def _gap(output: Tensor, wanted: Tensor) -> float:
    if output.shape != wanted.shape:
        return math.inf
    return float((output - wanted).abs().max() / wanted.abs().max())


def _zeros(model: nn.Module) -> float:
    weights = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    zeros = sum(int((weight == 0).sum()) for weight in weights)
    return zeros / sum(weight.numel() for weight in weights)


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Geometric means over all rows, and where ours lost."""
    names = ("over_eager", "over_best", "over_deepsparse")
    values = {name: [row[name] for row in rows if row[name] is not None] for name in names}
    means = {
        name: round(math.exp(sum(map(math.log, each)) / len(each)), 3)
        for name, each in values.items()
        if each
    }
    lost = [
        f"{row['network']}, batch {row['batch']}" for row in rows if (row["over_best"] or 0) < 1
    ]
    rival = [
        f"{row['network']}, batch {row['batch']}"
        for row in rows
        if row["over_deepsparse"] is not None and row["over_deepsparse"] < 1
    ]
    return {"geometric_means": means, "slower_than_the_best": lost, "slower_than_deepsparse": rival}


def table(rows: Sequence[Row]) -> str:
    """A line for each network and batch size."""
    engines = list(dict.fromkeys(name for row in rows for name in row["milliseconds"]))
    lines = [("network", "batch", *engines, "over eager", "over the best")]
    for row in rows:
        times = [f"{row['milliseconds'].get(name, math.nan):.2f}" for name in engines]
        ratios = [f"{row[name] or math.nan:.2f}" for name in ("over_eager", "over_best")]
        lines.append((row["network"], str(row["batch"]), *times, *ratios))
    return aligned(lines, left=[0])


def draw(rows: Sequence[Row], path: Path) -> list[Path]:
    """Times as fast as torch, a group of bars for each network and a panel for each batch size."""
    batches = sorted({row["batch"] for row in rows})
    engines = list(dict.fromkeys(name for row in rows for name in row["milliseconds"]))
    engines = [OURS, *(name for name in engines if name not in (OURS, BASELINE))]

    def panels(figure: Any) -> None:
        every = figure.subplots(len(batches), 1, squeeze=False)[:, 0]
        for axes, batch in zip(every, batches, strict=True):
            some = [row for row in rows if row["batch"] == batch]
            for index, engine in enumerate(engines):
                at = [
                    place + (index + 0.5) / (len(engines) + 1) - 0.5 for place in range(len(some))
                ]
                times = [row["milliseconds"] for row in some]
                high = [each[BASELINE] / each[engine] if engine in each else 0 for each in times]
                color = {"color": "black"} if engine == OURS else {}
                axes.bar(at, high, 1 / (len(engines) + 1), label=engine, **color)
            axes.axhline(1, color="grey", linewidth=0.8)
            axes.set_xticks(range(len(some)), labels=[row["network"] for row in some], rotation=35)
            axes.set(title=f"batch {batch}: times as fast as torch", yscale="log")
            axes.yaxis.set_major_formatter("{x:g}x")
            axes.yaxis.set_minor_formatter("{x:g}x")
            axes.legend(fontsize="small", ncols=len(engines))

    return save_plot(panels, path, size=(12, 4.5 * len(batches)))


def record(rows: Sequence[Row], options: argparse.Namespace, rival: DeepSparse | None) -> Row:
    """What is written."""
    known = {ENGINES[name].package: str(ENGINES[name].version()) for name in options.engines}
    known = {name: found for name, found in known.items() if found != "None"}
    return {
        "title": "The zoo: milliseconds by every engine, interleaved medians",
        "command": shlex.join(["python", "benchmarks/race.py", *sys.argv[1:]]),
        "seed": options.seed,
        "threads": options.threads,
        "machine": machine(),
        "versions": versions("torch", "numpy")
        | known
        | ({RIVAL: rival.version} if rival is not None else {}),
        "summary": summary(rows),
        "rows": list(rows),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=Path, help="a Python file with other networks")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="all by default")
    parser.add_argument("--batches", nargs="*", type=int, default=[1, 16])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--engines", nargs="*", default=["onnxruntime", "openvino"])
    parser.add_argument("--seconds", type=float, default=3.0, help="for all engines, at one batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deepsparse", type=Path, help="python of an environment with DeepSparse")
    parser.add_argument("--add", action="store_true", help="keep other rows of the record")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parents[1] / "results" / "zoo.json"
    )
    return parser.parse_args()


def main() -> None:
    """Runs the race, and writes the record after every row."""
    options = _options()
    torch.set_num_threads(options.threads)
    rival = DeepSparse(options.deepsparse) if options.deepsparse else None
    zoo = networks_of(options.networks) if options.networks else ZOO
    if unknown := sorted(set(options.only or ()) - set(zoo)):
        raise SystemExit(f"no network {', '.join(unknown)}; there are {', '.join(zoo)}")
    race = Race(zoo, options, rival)
    old = (
        json.loads(options.out.read_text())["rows"] if options.add and options.out.exists() else []
    )
    rows = {(row["network"], row["batch"]): row for row in old}
    warnings.simplefilter("ignore")
    for name in options.only or zoo:
        for batch in options.batches:
            row = race.row(name, batch)
            rows[name, batch] = row
            print(
                table([row]), *(f"{key}: {value}" for key, value in row["notes"].items()), sep="\n"
            )
            order = list(zoo)
            every = sorted(
                rows.values(), key=lambda one: (order.index(one["network"]), one["batch"])
            )
            content = json.dumps(record(every, options, rival), indent=1).encode() + b"\n"
            write_atomically(options.out, content)
    draw(every, options.out)
    print(json.dumps(summary(every), indent=1))


if __name__ == "__main__":
    main()
