"""Table 2 of the paper: LeNet-5 by every method, in the same loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.train import Run

from .. import paper
from ..contest import Contestant, best_gates, draw_contest, standing
from ..exhibit import Exhibit, Studies
from ..findings import Findings, Row
from ..printed import Printed
from ..verdict import Check, Claim, Tolerance

OTHERS = {
    "Baseline": "lenet5-dense",
    "SVD (rank-10)": "lenet5-svd",
    "Architecture Learning": "lenet5-architecture",
    "Adaptive Fastfood-1024": "lenet5-fastfood-1024",
    "Han et al.": "lenet5-magnitude",
}
OURS = ("Method-1", "Method-2")
MODERN = {
    "lenet5-sparse_vd": ("Molchanov et al. 2017", 250, 99.15),
    "lenet5-gsm": ("Ding et al. 2019", 250, 99.0),
}
ACCURACY = Tolerance(
    0.2, "points: two standard errors of an accuracy near 99.2 % on 10 000 images", "higher"
)
TENTH = 0.1
STANDINGS = ("ahead", "level", "behind", "no gates so small")
HEADS: Row = (
    *(
        "method",
        "recipe",
        "parameters",
        "paper's parameters",
        "with indices",
        "accuracy",
        "paper's accuracy",
        "rate",
    ),
    *("paper's rate", "verdict", "learned gates with at most as many"),
)


@dataclass(frozen=True)
class Lenet5Compare(Exhibit):
    """Every recipe for LeNet-5: the paper's rows, then methods without a printed number."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        return "Table 2: LeNet-5 by every method that the paper is measured against, and more"

    def plan(self) -> dict[str, Run[Any]]:
        """Every recipe for LeNet-5 except the demonstration."""
        return {
            name: make()
            for name, make in RECIPES.items()
            if name.startswith("lenet5-") and name != "lenet5-demo"
        }

    def findings(self, studies: Studies) -> Findings:
        """Returns the table, the comparisons, and the methods that learned gates do not beat."""
        entries = {name: Contestant(name, study) for name, study in studies.items()}
        printed = {
            **{row: entries.get(recipe) for row, recipe in OTHERS.items()},
            **_methods(entries),
        }
        used = {entry.recipe for entry in printed.values() if entry is not None}
        rest = sorted(
            (each for each in entries.values() if each.recipe not in used),
            key=lambda each: -each.kept.mean,
        )
        lines = list(printed.items()) + [(_label(entry), entry) for entry in rest]
        rows = tuple(_row(label, entry, entries) for label, entry in lines)
        checks = tuple(check for row, entry in printed.items() for check in _checks(row, entry))
        return Findings(
            self.title(), (HEADS, *rows), checks, _claims(entries), _notes(self, studies)
        )

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws accuracy over parameters: learned gates as a curve, everything else as points."""
        if studies:
            draw_contest(
                figure.subplots(),
                [Contestant(name, study) for name, study in studies.items()],
                paper.LENET5_COMPARE,
            )
        return bool(studies)


def _methods(entries: dict[str, Contestant]) -> dict[str, Contestant | None]:
    """Returns the gated networks whose sizes are closest to the paper's two methods."""
    gated = [each for each in entries.values() if each.is_gates]
    sizes = {row: _printed(row, "parameters").value for row in OURS}
    return {
        row: min(gated, key=lambda each: abs(each.kept.mean - size), default=None)
        for row, size in sizes.items()
    }


def _printed(row: str, column: str) -> Printed:
    number = paper.LENET5_COMPARE.number(row, column)
    assert number is not None
    return number


def _label(entry: Contestant) -> str:
    return str(entry.study.records[0].run["method"]["name"]).replace("_", " ")


def _row(label: str, entry: Contestant | None, entries: dict[str, Contestant]) -> Row:
    texts = [""] * 3
    if label in paper.LENET5_COMPARE.rows:
        numbers = [
            paper.LENET5_COMPARE.number(label, column)
            for column in ("parameters", "accuracy", "rate")
        ]
        texts = [number.text if number else "" for number in numbers]
    if entry is None:
        return (label, "", "-", texts[0], "-", "-", texts[1], "-", texts[2], "not run yet", "-")
    verdict = " / ".join(check.verdict for check in _checks(label, entry)) if texts[0] else ""
    against = (
        ""
        if entry.is_gates
        else standing(best_gates(entries.values(), at_most=entry.kept.mean), entry)
    )
    alone = len(entry.study.records) == 1
    accuracy = f"{entry.test.mean:.2f}" + (
        " (one seed)" if alone else f" ± {entry.test.spread:.2f}"
    )
    sizes = f"{entry.kept.mean:,.0f}", f"{entry.with_indices.mean:,.0f}"
    rate = f"{entry.rate.mean:.1f}x"
    return (
        label,
        f"`{entry.recipe}`",
        sizes[0],
        texts[0],
        sizes[1],
        accuracy,
        texts[1],
        rate,
        texts[2],
        verdict,
        against,
    )


def _checks(row: str, entry: Contestant | None) -> tuple[Check, Check]:
    """Compares sizes (within 10 %) and accuracies (within 0.2 points)."""
    size, accuracy = _printed(row, "parameters"), _printed(row, "accuracy")
    near = Tolerance(TENTH * size.value, "parameters, a tenth of those printed", "lower")
    kept, test = (None, None) if entry is None else (entry.kept, entry.test)
    return Check(size, kept, near, digits=0), Check(accuracy, test, ACCURACY)


def _claims(entries: dict[str, Contestant]) -> tuple[Claim, ...]:
    """Checks that gates lead wherever they compete, and mentions two later methods."""
    others = [each for each in entries.values() if not each.is_gates]
    against = {
        each.recipe: standing(best_gates(entries.values(), at_most=each.kept.mean), each)
        for each in others
    }
    claims = [
        Claim(
            "learned gates of at most the same size are ahead of every method",
            all(words.startswith("ahead") for words in against.values()),
            "; ".join(
                f"{word} {_these(against, word)}" for word in STANDINGS if _these(against, word)
            ),
        )
    ]
    for recipe, (cite, rate, accuracy) in MODERN.items():
        if (entry := entries.get(recipe)) is not None:
            holds = entry.rate.mean >= rate and entry.test.mean >= accuracy
            text = f"{_label(entry)} ({cite}, not in the paper) reaches {rate}x at {accuracy:g} %"
            claims.append(Claim(text, holds, f"{entry.rate.mean:.0f}x at {entry.test.mean:.2f} %"))
    return tuple(claims) if others else ()


def _these(against: dict[str, str], word: str) -> str:
    found = [
        recipe.removeprefix("lenet5-")
        for recipe, words in against.items()
        if words.startswith(word)
    ]
    return f"({len(found)}): {', '.join(found)}" if found else ""


def _notes(exhibit: Lenet5Compare, studies: Studies) -> tuple[str, ...]:
    missing = [name for name in exhibit.plan() if name not in studies]
    notes = [
        "Parameters are weights, or what a layer stores instead; biases are excluded, as in the "
        "paper. Networks were selected by validation accuracy. *Level* means that the difference "
        "is within two standard errors of the two means.",
        "We train on images shifted by up to two pixels, which the paper does not mention. This "
        "raises all accuracies above the printed ones, including the dense baseline's. Above "
        "about 30,000 weights, all methods are nearly equal.",
    ]
    if missing:
        notes.append(
            f"Not run yet, or changed since: {', '.join(missing)}; `python benchmarks/compare.py "
            "NAME` makes one."
        )
    return tuple(notes)
