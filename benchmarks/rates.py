"""Accuracy over rate, from the studies at several rates: python benchmarks/rates.py --out results/rates.json.

A row for every study, beside the dense baseline of the same seeds; `lost` is the mean over seeds of
what each lost on the test set against the dense network that it began with. A study whose dense
networks are not those of the baseline has them in a folder `dense` beside it: trained again with
the same seed they are not quite the same.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sparsegate_lab.paper.imagenet import began_with
from sparsegate_lab.record import Record
from sparsegate_lab.study import Study, Summary

FAMILIES = {"alexnet-imagenette": "", "vgg16-imagenette": "", "vgg16-cifar10": "cifar10"}


def rows(folder: Path, family: str) -> list[dict[str, Any]]:
    """All studies of a network on its data, the dense one first, then by rate."""
    studies = {path.stem: Study.load(path) for path in folder.glob(f"{family}*.json")}
    dense = studies.get(f"{family}-dense")
    found = []
    for recipe, study in studies.items():
        own = folder / "dense" / f"{recipe}.json"
        baseline = Study.load(own) if own.exists() else dense
        found.append(_row(recipe, study, baseline.records if baseline else ()))
    return sorted(found, key=lambda row: float(row["rate"]))


def _row(recipe: str, study: Study, baselines: tuple[Record, ...]) -> dict[str, Any]:
    pairs = [(began_with(record, baselines), record) for record in study.records]
    lost = [round(dense.test - record.test, 4) for dense, record in pairs if dense is not None]
    return {
        "recipe": recipe,
        "seeds": [record.run["seed"] for record in study.records],
        "kept": round(study.summary(lambda record: record.kept).mean),
        "rate": study.summary(lambda record: record.rate).mean,
        "epochs": study.records[0].run["epochs"],
        "test": vars(study.summary(lambda record: record.test)),
        "validation": vars(study.summary(lambda record: record.validation)),
        "lost": vars(Summary.of(lost)) if lost else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    curves = {family: rows(args.results / place, family) for family, place in FAMILIES.items()}
    title = "Accuracy over rate: AlexNet and VGG-16 on Imagenette at 224x224, VGG-16 on CIFAR-10."
    content = {
        "title": title,
        "command": "python benchmarks/rates.py --out results/rates.json",
        "curves": curves,
    }
    args.out.write_text(json.dumps(content, indent=1) + "\n")
    for row in (row for each in curves.values() for row in each):
        test, lost = (
            row["test"],
            "unknown" if row["lost"] is None else f"{row['lost']['mean']:+.2f}",
        )
        print(
            f"{row['recipe']:28} {row['rate']:8.1f}x {test['mean']:6.2f} +- {test['spread']:.2f} "
            f"%, {lost} lost, {len(row['seeds'])} seeds"
        )


if __name__ == "__main__":
    main()
