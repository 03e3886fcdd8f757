"""Writes the tables of docs/results.md from results/*.json: python benchmarks/readme.py."""

from __future__ import annotations

import json
import re
from operator import attrgetter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from sparsegate.text_table import markdown
from sparsegate_lab.report import study_table
from sparsegate_lab.study import Study

ROOT = Path(__file__).parent.parent
STUDIES = ("lenet5-demo", "lenet5-method1", "lenet5-method2", "lenet5-200x")
TWO_CORES = "lenet5-200x"  # also made once on two cores, to see the minutes
STUDENTS = ("lenet5-100x", "lenet5-300x", "lenet5-500x", "lenet300-68x", "lenet300-100x")
COMPARED = {
    "lenet5-svd": "43.6K, 98.47",
    "lenet5-architecture": "40.9K, 99.04",
    "lenet5-fastfood-1024": "38.8K, 99.29",
    "lenet5-magnitude": "36K, 99.23",
    "lenet5-gates-22k": "22K, 99.33",
    "lenet5-gates-18k": "18K, 99.19",
    "lenet5-gsm": "",
    "lenet5-sparse_vd": "",
}
"""Recipes, and what the paper reports for the method."""


def studies() -> str:
    """One row for each recipe."""
    rows = study_table({name: Study.load(ROOT / "results" / f"{name}.json") for name in STUDIES})
    alone = study_table({TWO_CORES: Study.load(ROOT / "results" / "single" / f"{TWO_CORES}.json")})
    return markdown([*rows, *alone[1:]])


def pupils() -> str:
    """LeNets with a dense teacher."""
    rows = [
        ("recipe", "weights kept", "rate", "rate with biases", "test accuracy", "lowest to highest")
    ]
    for recipe in STUDENTS:
        study = Study.load(ROOT / "results" / f"{recipe}.json")
        kept, rate, both, test = (
            study.summary(attrgetter(name)) for name in ("kept", "rate", "rate_with_biases", "test")
        )
        rows.append(
            (
                f"`{recipe}` ({len(study.records)} seeds)",
                f"{kept.mean:,.0f}",
                f"{rate.mean:.0f}x",
                f"{both.mean:.0f}x",
                f"{test.mean:.2f} ± {test.spread:.2f} %",
                f"{test.low:.2f} to {test.high:.2f}",
            )
        )
    return markdown(rows)


def compared() -> str:
    """Other pruning methods in the same training loop."""
    rows = [("recipe", "weights", "with indices", "test accuracy", "in the paper")]
    for recipe, printed in COMPARED.items():
        study = Study.load(ROOT / "results" / "compare" / f"{recipe}.json")
        kept, stored, test = (
            study.summary(attrgetter(name)) for name in ("kept", "num_with_indices", "test")
        )
        accuracy = f"{test.mean:.2f} ± {test.spread:.2f} %"
        rows.append((f"`{recipe}`", f"{kept.mean:,.0f}", f"{stored.mean:,.0f}", accuracy, printed))
    return markdown(rows)


def cost() -> str:
    """Seconds of an epoch, and the ratios between them."""
    result = json.loads((ROOT / "results" / "epoch-cost.json").read_text())
    seconds = [(name, f"{value:.2f} s") for name, value in result["median_seconds"].items()]
    ratios = [(name, f"{value:.3f}") for name, value in result["ratios"].items()]
    return markdown([("", "one epoch"), *seconds, *ratios])


FILES = (
    ("paper's size", "lossless"),
    ("paper's size", "4 bits per network, tuned"),
    ("smallest", "lossless"),
    ("smallest", "4 bits per network, tuned"),
    ("smallest", "2 bits per network, tuned"),
)


def files() -> str:
    """Sizes and accuracies of LeNet-5 as .sg files."""
    found = json.loads((ROOT / "results" / "lenet5-files.json").read_text())["summary"]
    rows = [("network", "values", "`.sg` file", "weights", "test accuracy")]
    for network, stage in FILES:
        numbers = found[network][stage]
        size, weights, test = (
            numbers["sg_bytes"]["mean"],
            numbers["weights"]["mean"],
            numbers["test"],
        )
        accuracy = f"{test['mean']:.2f} ± {test['spread']:.2f} %"
        rows.append((network, stage, f"{size:,.0f} bytes", f"{weights:,.0f}", accuracy))
    return markdown(rows)


def gpu() -> str:
    """Two linear layers on a GPU, compared with cuBLAS and cuSPARSE."""
    found = json.loads((ROOT / "results" / "gpu-layers.json").read_text())["rows"]
    rows = [("layer", "sparsity", "batch", "ours", "cuBLAS", "cuSPARSE", "times cuBLAS")]
    for row in found:
        if row["layer"] in ("VGG-16 fc6", "AlexNet fc6") and row["batch"] in (1, 16):
            times = row["summary"]["cold"]
            columns = [f"{times[name]:.1f} µs" for name in ("ours", "dense", "cuSPARSE")]
            sparsity = f"{100 * row['sparsity']:.1f} %"
            rows.append(
                (row["layer"], sparsity, str(row["batch"]), *columns, f"{times['times_dense']:.1f}")
            )
    return markdown(rows)


def cpu() -> str:
    """Speed-ups on a CPU over eager PyTorch and, in brackets, over DeepSparse."""
    found = json.loads((ROOT / "results" / "cpu-speed.json").read_text())["rows"]
    batches = sorted({row["batch"] for row in found})
    rows = [("", *(f"batch {batch}" for batch in batches))]
    for case in dict.fromkeys(row["case"] for row in found if row["times_deepsparse"] is not None):
        times = {row["batch"]: row for row in found if row["case"] == case}
        threads = {row["threads"] for row in times.values()}
        name = case if threads == {1} else f"{case}, {min(threads)} threads"
        rows.append(
            (name, *(_speed_ups(times[batch]) if batch in times else "" for batch in batches))
        )
    return markdown(rows)


def _speed_ups(row: dict[str, Any]) -> str:
    return f"{row['times_eager']['ours']:.1f}x ({row['times_deepsparse']:.2f}x)"


WAYS = ("gates", "magnitude", "magnitude by layer", "small dense")


def characters() -> str:
    """Bits per character of a small transformer over kept weights, by way."""
    found = json.loads((ROOT / "results" / "circuits.json").read_text())["summary"]
    bits = {(row["way"], row["keep"]): _bits(row) for row in found}
    rows = [("weights kept", *WAYS), ("100 %", *(bits["dense", 1.0] for _ in WAYS))]
    for keep in sorted({keep for way, keep in bits if way != "dense"}, reverse=True):
        rows.append((f"{100 * keep:g} %", *(bits[way, keep] for way in WAYS)))
    return markdown(rows)


def _bits(row: dict[str, Any]) -> str:
    if row["seeds"] < 2:
        return f"{row['bits']:.2f} (one seed)"
    few = "" if row["seeds"] > 2 else " (two seeds)"
    return f"{row['bits']:.2f} ± {row['spread']:.2f}{few}"


def minilm() -> str:
    """A pretrained transformer: accuracy by way and weights kept, mean and spread over seeds."""
    found = json.loads((ROOT / "results" / "minilm.json").read_text())["rows"]
    ways = {"dense": "dense", "gates": "gates", "magnitude": "gradual magnitude, by layer"}
    rows = [("fine-tuned", "weights kept", "seeds", "accuracy", "sparse file")]
    cases = dict.fromkeys((row["way"], row["keep"]) for row in found)
    for way, keep in sorted(cases, key=lambda case: (-case[1], case[0])):
        each = [row for row in found if (row["way"], row["keep"]) == (way, keep)]
        accuracies = [row["accuracy"] for row in each]
        spread = f" ± {stdev(accuracies):.2f}" if len(each) > 1 else ""
        size = mean(row["sparse_file_bytes"] for row in each) / 1e6
        accuracy = f"{mean(accuracies):.2f}{spread} %"
        kept = f"{100 * keep:g} %"
        rows.append((ways[way], kept, str(len(each)), accuracy, f"{size:.1f} MB"))
    return markdown(rows)


TABLES = {
    "minilm": minilm,
    "characters": characters,
    "studies": studies,
    "pupils": pupils,
    "compared": compared,
    "cost": cost,
    "files": files,
    "cpu": cpu,
    "gpu": gpu,
}


def filled(text: str) -> str:
    """The page with every marked table generated again."""
    for name, table in TABLES.items():
        marked = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        assert marked.search(text), f"docs/results.md has no marks for the table {name}"
        content = table() + "\n"
        text = marked.sub(lambda match, content=content: match[1] + content + match[2], text)
    return text


def main() -> None:
    page = ROOT / "docs" / "results.md"
    page.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
