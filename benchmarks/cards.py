"""Writes the tables of the method cards from results/*.json: python benchmarks/cards.py."""

from __future__ import annotations

import re
from pathlib import Path

from sparsegate.text_table import markdown
from sparsegate_lab.methods import METHODS
from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.study import Study

ROOT = Path(__file__).parent.parent
FOLDERS = ("results/single", "results", "results/compare", "results/cifar10")
"""Where a recipe's records may be; the last folder that has one counts."""
HEADS = ("recipe", "seeds", "weights", "with indices", "rate", "test accuracy", "record")
BETWEEN = re.compile(r"(<!-- measured -->\n).*?(\n<!-- /measured -->)", re.DOTALL)


def main() -> None:
    for name in METHODS:
        path = ROOT / "docs" / "methods" / f"{name}.md"
        path.write_text(filled(name, path.read_text()))


def filled(name: str, card: str) -> str:
    """A card with the table of its method's studies generated again."""
    studies = _studies(name)
    rows = [_row(recipe, path) for recipe, path in studies.items()]
    missing = [
        recipe
        for recipe, make in RECIPES.items()
        if make().method_name == name and recipe not in studies
    ]
    parts = [markdown([HEADS, *rows])] if rows else []
    if missing:
        parts.append(f"Not trained yet: {', '.join(f'`{recipe}`' for recipe in missing)}.")
    return BETWEEN.sub(lambda found: found[1] + "\n\n".join(parts) + found[2], card)


def _studies(name: str) -> dict[str, Path]:
    """The studies of a method's recipes, as far as there are records."""
    recipes = [recipe for recipe, make in RECIPES.items() if make().method_name == name]
    paths = [(recipe, ROOT / folder / f"{recipe}.json") for recipe in recipes for folder in FOLDERS]
    return {recipe: path for recipe, path in paths if path.exists()}


def _row(recipe: str, path: Path) -> tuple[str, ...]:
    study = Study.load(path)
    kept, indices = (
        study.summary(lambda record: record.kept),
        study.summary(lambda record: record.num_with_indices),
    )
    rate, test = (
        study.summary(lambda record: record.rate),
        study.summary(lambda record: record.test),
    )
    accuracy = (
        f"{test.mean:.2f} ± {test.spread:.2f} %" if len(study.records) > 1 else f"{test.mean:.2f} %"
    )
    numbers = f"{kept.mean:,.0f}", f"{indices.mean:,.0f}", f"{rate.mean:.1f}x", accuracy
    return (
        f"`{recipe}`",
        str(len(study.records)),
        *numbers,
        f"`{path.relative_to(ROOT).as_posix()}`",
    )


if __name__ == "__main__":
    main()
