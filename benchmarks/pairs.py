"""Trains methods at seven rates on small pairs of network and data: python benchmarks/pairs.py PAIR=DATA.

All runs of a pair have the same epochs, batches and learning rate; methods have their defaults. Runs
that are in the record are not made again. Scores are chosen by the validation split and shown of the
test split. Without PAIR, writes the table and the picture of what the record has:

    python benchmarks/pairs.py spoken-digits=recordings.tar.xz fashion-lenet5=data/fashion-mnist
    python benchmarks/pairs.py
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pair_runs import DENSE, OURS, Job, in_processes
from pair_tasks import TASKS

from sparsegate.bench import save_plot
from sparsegate.text_table import Row, markdown
from sparsegate_lab.recipes import CONTESTANTS
from sparsegate_lab.study import Summary
from sparsegate_lab.train import machine, versions
from sparsegate_runtime.atomic import write_atomically

ROOT = Path(__file__).parent.parent
KEEPS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003)
NAMED = ("method", "keep", "seed")
METHODS = (
    OURS,
    "gradual_magnitude",
    "gradual_magnitude-lamp",
    "st3",
    "feather",
    "rigl",
)
TABLE = ROOT / "docs" / "notebook" / "pairs.md"


def main() -> None:
    options = parse()
    record = json.loads(options.out.read_text()) if options.out.exists() else {"pairs": {}}
    if options.pairs:
        extend(record, options)
    write_table(record)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="*", metavar="PAIR=DATA", help=f"pairs: {', '.join(TASKS)}")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(CONTESTANTS))
    parser.add_argument("--keeps", nargs="+", type=float, default=list(KEEPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "pairs.json")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="seconds; no run goes past it"
    )
    options = parser.parse_args()
    named = dict(each.partition("=")[::2] for each in options.pairs)
    if wrong := [name for name, data in named.items() if name not in TASKS or not data]:
        parser.error(f"a pair is NAME=DATA with one of {', '.join(TASKS)}, got {wrong[0]!r}")
    options.pairs = {name: Path(data) for name, data in named.items()}
    return options


def extend(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Makes the runs that the record lacks, and writes it after each."""
    jobs = list(wanted(record, options))
    record |= {
        "title": "Methods at seven rates on small pairs of network and data, with equal epochs",
        "command": f"python benchmarks/pairs.py PAIR=DATA ... --device {options.device}",
        "machine": machine(),
        "versions": versions(),
    }
    for row in in_processes(jobs, options.processes, options.limit):
        rows = record["pairs"][row.pop("pair")]["rows"]
        # Runs with other settings of the same method are replaced.
        rows[:] = [each for each in rows if any(each[part] != row[part] for part in NAMED)]
        rows.append(row)
        print({part: row[part] for part in row if part != "settings"}, flush=True)
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


def wanted(record: dict[str, Any], options: argparse.Namespace) -> Iterator[Job]:
    """The runs that are missing: whole seeds first, so that a record that is cut off has them."""
    done = {}
    for pair in options.pairs:
        task = TASKS[pair]
        settings = {
            name: getattr(task, name) for name in ("about", "epochs", "lr", "adam", "batch", "bits")
        }
        found = record["pairs"].setdefault(pair, {**settings, "rows": []})
        if any(found[name] != value for name, value in settings.items()):
            raise SystemExit(f"{pair} has other settings in {options.out}; delete it there")
        done[pair] = [(*(row[part] for part in NAMED), row["settings"]) for row in found["rows"]]
    cells = [(DENSE, 1.0), *((name, keep) for keep in options.keeps for name in options.methods)]
    for seed in options.seeds:
        for method, keep in cells:
            for pair, data in options.pairs.items():
                job = Job(pair, data, method, keep, seed, options.device)
                if (method, keep, seed, repr(job.make())) not in done[pair]:
                    yield job


def write_table(record: dict[str, Any]) -> None:
    """Writes the page of the notebook, and the pictures next to the record."""
    text = [
        "# Pairs of network and data: observations",
        "",
        "Made by [`benchmarks/pairs.py`](../../benchmarks/pairs.py) from",
        "[pairs.json](../../results/pairs.json). Every method has its default settings, the same epochs",
        "and the same batches; networks and data are small, so that many runs fit on two cores. Cells",
        "are of the test split: means over seeds, with the spread. Fewer seeds than in the first row stand in",
        "brackets. A star marks the best method by validation. The last row compares gates with the best",
        "of the other methods, chosen by validation; above zero, gates are ahead.",
    ]
    for name, pair in record["pairs"].items():
        unit = "bits per character, less is better" if pair["bits"] else "accuracy in per cent"
        about = f"{pair['about']}. {pair['epochs']} epochs; {unit}."
        text += ["", f"## {name}", "", about, "", markdown(table(pair))]
        save_plot(
            lambda figure, pair=pair: draw(figure, pair),  # type: ignore[misc]
            ROOT / "results" / f"pairs-{name}.json",
            size=(7.0, 4.0),
        )
    write_atomically(TABLE, ("\n".join(text) + "\n").encode())


def cell(pair: dict[str, Any], method: str, keep: float, split: str) -> Summary | None:
    """A score over the seeds of a method at a rate."""
    rows = [row for row in pair["rows"] if (row["method"], row["keep"]) == (method, keep)]
    return Summary.of([row[split] for row in rows]) if rows else None


def best(pair: dict[str, Any], keep: float, methods: list[str]) -> str:
    """The method that is best on the validation split."""
    sign = -1 if pair["bits"] else 1
    means = {name: cell(pair, name, keep, "validation") for name in methods}
    scored = {name: sign * each.mean for name, each in means.items() if each}
    return max(scored, key=lambda name: scored[name], default="")


def table(pair: dict[str, Any]) -> list[Row]:
    """A row for each method, a column for each rate, and the lead of gates."""
    names = list(dict.fromkeys(row["method"] for row in pair["rows"]))
    methods = [name for name in names if name != DENSE]
    keeps = sorted({row["keep"] for row in pair["rows"] if row["keep"] < 1}, reverse=True)
    seeds = len({row["seed"] for row in pair["rows"]})
    dense = cell(pair, DENSE, 1.0, "test")
    control = [(DENSE, *(spread(dense) for _ in keeps))] if dense else []
    lines = [
        (name, *(marked(pair, name, keep, best(pair, keep, methods)) for keep in keeps))
        for name in methods
    ]
    sign = -1 if pair["bits"] else 1
    leads = []
    for keep in keeps:
        ours = cell(pair, OURS, keep, "test")
        rival = cell(pair, best(pair, keep, [m for m in methods if m != OURS]), keep, "test")
        leads.append(f"{sign * (ours.mean - rival.mean):+.2f}" if ours and rival else "-")
    return [
        (f"{seeds} seeds", *(f"keep {keep:g}" for keep in keeps)),
        *control,
        *lines,
        ("gates ahead of the best other by", *leads),
    ]


def marked(pair: dict[str, Any], method: str, keep: float, winner: str) -> str:
    found = cell(pair, method, keep, "test")
    if found is None:
        return "-"
    kept, total = cell(pair, method, keep, "kept"), cell(pair, method, keep, "total")
    assert kept is not None
    assert total is not None
    share = kept.mean / total.mean
    size = "" if 0.9 < share / keep < 1.1 else f" [{share:.2g}]"
    most = len({row["seed"] for row in pair["rows"]})
    seeds = sum((row["method"], row["keep"]) == (method, keep) for row in pair["rows"])
    few = "" if seeds == most else f" ({seeds})"
    return spread(found) + ("*" if method == winner else "") + size + few


def spread(found: Summary) -> str:
    return f"{found.mean:.2f}" + (f" ± {found.spread:.2f}" if found.low < found.high else "")


def draw(figure: Any, pair: dict[str, Any]) -> None:
    """Scores over the fraction of weights, with bars from the lowest seed to the highest."""
    axes = figure.subplots()
    names = list(dict.fromkeys(row["method"] for row in pair["rows"]))
    for name in [each for each in names if each != DENSE]:
        keeps = sorted({row["keep"] for row in pair["rows"] if row["method"] == name})
        found = [cell(pair, name, keep, "test") for keep in keeps]
        means = [each.mean for each in found if each]
        low = [each.mean - each.low for each in found if each]
        high = [each.high - each.mean for each in found if each]
        wide = 2.2 if name == OURS else 1.1
        axes.errorbar(keeps, means, yerr=(low, high), label=name, linewidth=wide, capsize=2)
    if dense := cell(pair, DENSE, 1.0, "test"):
        axes.axhline(dense.mean, color="black", linestyle=":", label=DENSE)
    ylabel = "bits per character" if pair["bits"] else "test accuracy in per cent"
    axes.set(xscale="log", xlabel="fraction of weights kept", ylabel=ylabel)
    axes.set_title(pair["about"], fontsize=9)
    axes.legend(fontsize=7)


if __name__ == "__main__":
    main()
