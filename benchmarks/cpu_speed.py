"""How fast networks with zeros run on a CPU: torch, other engines and ours, interleaved, as medians.

python benchmarks/cpu_speed.py --deepsparse PATH/bin/python, where that environment of its own has deepsparse==1.8.0,
onnx==1.14.1 and numpy==1.26.4. Engines that are not installed are left out; so is DeepSparse without the option.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from speed_cases import CASES, DEEPSPARSE, EAGER, OURS, WIRED, Case
from speed_ways import DeepSparse, Way, in_process, medians
from torch import Tensor, nn

from sparsegate.bench import ENGINES
from sparsegate.runtime import SparseNetwork, sparse
from sparsegate.text_table import aligned
from sparsegate_lab.train import machine, versions
from sparsegate_runtime.atomic import write_atomically

CHAIN = "ours, all chain"
Row = dict[str, Any]


class Bench:
    """Measures cases, batch by batch, until the time is up."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._began, self._options = time.monotonic(), options
        self._deepsparse = DeepSparse(options.deepsparse) if options.deepsparse else None
        wanted = [EAGER, *(["torch.compile"] if options.compile else []), *options.engines]
        self._engines = [name for name in wanted if ENGINES[name].available()]
        self._before = _record(options.results) if options.add else {}
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self.left_out: list[str] = []

    def run(self, case: Case) -> Iterator[Row]:
        """A row for every batch that there is time for."""
        only = self._options.batches or case.batches
        batches = [batch for batch in case.batches if batch in only]
        torch.set_num_threads(case.threads)
        model = case.build() if self.seconds < self._options.time_limit else nn.Identity()
        fast: SparseNetwork | None = None
        for batch in batches:
            if self.seconds > self._options.time_limit:
                self.left_out.append(f"{case.name}, batch {batch}")
                continue
            if fast is None or not case.whole:
                chosen_at = case.batches[:2] if case.whole else [batch]
                fast = sparse(model, torch.rand(1, *case.shape), batches=chosen_at)
            x = torch.rand(batch, *case.shape, generator=torch.Generator().manual_seed(0))
            self.rows.append(self._row(case, model, x, fast))
            yield self.rows[-1]

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def result(self) -> dict[str, Any]:
        """All that was measured so far."""
        known = {ENGINES[name].package: str(ENGINES[name].version()) for name in self._engines}
        deepsparse = {DEEPSPARSE: self._deepsparse.version} if self._deepsparse else {}
        rows, command = (
            self._all_rows(),
            shlex.join(["python", "benchmarks/cpu_speed.py", *sys.argv[1:]]),
        )
        return {
            "title": "Networks with zeros on a CPU: milliseconds by every engine, interleaved medians",
            "command": "; ".join(
                dict.fromkeys([*self._before.get("command", "").split("; "), command])
            ).lstrip("; "),
            "machine": machine(),
            "versions": {**self._before.get("versions", {}), **versions(), **known, **deepsparse},
            "seconds": round(self.seconds) + self._before.get("seconds", 0),
            "notes": list(dict.fromkeys([*self._before.get("notes", []), *self.notes])),
            "left_out": self.left_out,
            "targets": targets(rows),
            "rows": rows,
        }

    def _all_rows(self) -> list[Row]:
        """What was measured now, and what an earlier run measured of other cases and batches, in the cases' order."""
        found = {
            (row["case"], row["batch"]): row for row in [*self._before.get("rows", []), *self.rows]
        }
        order = [case.name for case in CASES]
        return sorted(found.values(), key=lambda row: (order.index(row["case"]), row["batch"]))

    def save(self) -> None:
        """Writes all that was measured so far."""
        content = json.dumps(self.result(), indent=1).encode() + b"\n"
        write_atomically(self._options.results / "cpu-speed.json", content)

    def _row(self, case: Case, model: nn.Module, x: Tensor, fast: SparseNetwork) -> Row:
        ways = self._ways(case, model, x, fast)
        times = medians(ways, seconds=self._options.seconds)
        wanted = ways[EAGER].output
        scale = float(wanted.abs().max())
        choice = min(fast.choices, key=lambda each: abs(each.batch - len(x)))
        return {
            "case": case.name,
            "batch": len(x),
            "threads": case.threads,
            "milliseconds": {name: round(1e3 * each, 5) for name, each in times.items()},
            "times_eager": {name: round(times[EAGER] / each, 3) for name, each in times.items()},
            "times_deepsparse": round(times[DEEPSPARSE] / times[OURS], 3)
            if DEEPSPARSE in times
            else None,
            "chosen": choice.kernels,
            "chosen_at_batch": choice.batch,
            "differences": {
                name: float((way.output - wanted).abs().max()) / scale for name, way in ways.items()
            },
        }

    def _ways(self, case: Case, model: nn.Module, x: Tensor, fast: SparseNetwork) -> dict[str, Way]:
        """Every engine, prepared; one that fails is noted, and the rest of the table stands."""
        makers: dict[str, Callable[[], Way]] = {
            name: partial(_by_rival, name, model, x, case.threads)
            for name in self._engines
            if name in case.engines
        }
        if self._deepsparse is not None and DEEPSPARSE in case.engines:
            makers[DEEPSPARSE] = partial(self._deepsparse.prepare, model, x, threads=case.threads)
        if not case.whole:
            makers[CHAIN] = lambda: in_process(sparse(model, x, kernel="chain"), x)
        if case.hard_wired:
            makers[WIRED] = lambda: in_process(_hard_wired(model, x), x)
        makers[OURS] = lambda: in_process(fast, x)
        ways: dict[str, Way] = {}
        for name, make in makers.items():
            try:
                ways[name] = make()
            except Exception as error:
                note = (
                    f"{name} failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
                )
                self.notes += [note] if note not in self.notes else []
        return ways


def _record(folder: Path) -> dict[str, Any]:
    """What an earlier run wrote, of cases that still exist; nothing if there was none."""
    path = folder / "cpu-speed.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    names = {case.name for case in CASES}
    return {**record, "rows": [row for row in record.get("rows", []) if row["case"] in names]}


def _by_rival(name: str, model: nn.Module, x: Tensor, threads: int) -> Way:
    with torch.inference_mode():
        return in_process(ENGINES[name].prepare(model, x, threads=threads), x)


def _hard_wired(model: nn.Module, x: Tensor) -> Any:
    from sparsegate.export import hard_wire

    return hard_wire(model, example=x[:1])


def table(rows: list[Row]) -> str:
    """Milliseconds of every engine, and ours beside them."""
    names = list(dict.fromkeys(name for row in rows for name in row["milliseconds"]))
    heads = ("case", "threads", "batch", *names, "x eager", "x DeepSparse")
    lines = [
        (
            *(row["case"], str(row["threads"]), str(row["batch"])),
            *(
                f"{row['milliseconds'][name]:.4g}" if name in row["milliseconds"] else "-"
                for name in names
            ),
            f"{row['times_eager'][OURS]:.2f}",
            "-" if row["times_deepsparse"] is None else f"{row['times_deepsparse']:.2f}",
        )
        for row in rows
    ]
    return aligned([heads, *lines])


def targets(rows: list[Row]) -> list[Row]:
    """Every ratio that is wanted, beside the one that was measured."""
    found = []
    for case in CASES:
        for (who, whom), wanted in case.wanted.items():
            for batch, least in zip(case.batches, wanted, strict=False):
                same = [row for row in rows if (row["case"], row["batch"]) == (case.name, batch)]
                times = same[0]["milliseconds"] if same else {}
                ratio = round(times[whom] / times[who], 3) if {who, whom} <= times.keys() else None
                about = {
                    "case": case.name,
                    "who": who,
                    "against": whom,
                    "batch": batch,
                    "wanted": least,
                }
                found.append(
                    {
                        **about,
                        "measured": ratio,
                        "reached": None if ratio is None else ratio >= least,
                    }
                )
    return found


def target_table(found: list[Row]) -> str:
    """A line for every case and opponent: measured (wanted), a mark where it is not reached."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for each in found:
        cells = lines.setdefault((each["case"], each["who"], each["against"]), [])
        mark = {True: "", False: " MISSED", None: ""}[each["reached"]]
        cells.append(
            "-"
            if each["measured"] is None
            else f"{each['measured']:.2f} (>= {each['wanted']:g}){mark}"
        )
    rows = [("case", "who", "against", *map(str, CASES[0].batches))]
    rows += [
        (*key, *cells, *[""] * (4 - len(cells)))
        for key, cells in lines.items()
        if set(cells) != {"-"}
    ]
    return aligned(rows)


def options_of(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="NAME",
        help="cases whose names contain one of these",
    )
    parser.add_argument("--batches", type=int, nargs="+", help="only these batches")
    parser.add_argument(
        "--engines", nargs="+", default=["onnxruntime", "openvino"], choices=[*ENGINES][1:]
    )
    parser.add_argument(
        "--compile", action="store_true", help="time torch.compile too, which takes minutes more"
    )
    parser.add_argument(
        "--deepsparse", type=Path, metavar="PYTHON", help="Python of an environment with DeepSparse"
    )
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="for the engines at one batch of one case"
    )
    parser.add_argument(
        "--time-limit", type=float, default=900, help="begin nothing after so many seconds"
    )
    parser.add_argument(
        "--add", action="store_true", help="keep what the record has of other cases and batches"
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    return parser.parse_args(argv)


def main() -> None:
    options = options_of(sys.argv[1:])
    bench = Bench(options)
    cases = [
        case for case in CASES if any(word.lower() in case.name.lower() for word in options.only)
    ]
    options.results.mkdir(exist_ok=True)
    for case in cases:
        for row in bench.run(case):
            print(f"{bench.seconds:5.0f} s  {table([row]).splitlines()[1]}", flush=True)
            bench.save()
    bench.save()  # what was left out, too
    print(
        table(bench.rows),
        target_table(targets(bench.rows)),
        *map("note: {}".format, bench.notes),
        sep="\n\n",
    )
    print(f"left out: {'; '.join(bench.left_out) or 'nothing'}; {bench.seconds:.0f} s")


if __name__ == "__main__":
    main()
