"""Table 5 of the paper: the effect of the two prices, with gates on fc1 alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparsegate_lab.study import Study, Summary
from sparsegate_lab.train import Run

from .. import paper
from ..exhibit import Exhibit, Studies
from ..fc1_runs import (
    DRAWS,
    SETTING,
    DrawName,
    accuracy,
    fc1_gated,
    sampled_sparsity,
    sampled_variance,
    threshold_sparsity,
)
from ..findings import Findings, Row
from ..verdict import Check, Claim, Tolerance

PAIRS = {"(0, 0)": (0.0, 0.0), "(1, 1)": (1.0, 1.0), "(1, 0)": (1.0, 0.0), "(0, 1)": (0.0, 1.0)}
SPARSITY = Tolerance(
    5.0, "points of sparsity, since the paper states neither learning rate nor length of training"
)
VARIANCE = Tolerance(3.0, "points of variance, for the same reason")
Column = tuple[DrawName, Callable[[Study], Summary], Tolerance]
COLUMNS: dict[str, Column] = {
    "sparsity [T]": ("threshold", threshold_sparsity, SPARSITY),
    "mean sparsity [S]": ("sample", sampled_sparsity, SPARSITY),
    "variance [S]": ("sample", sampled_variance, VARIANCE),
}
HEADS: Row = ("(lambda1, lambda2)", *COLUMNS, "accuracy [T]", "accuracy [S]")
CHOICE = (
    "The setting is one of 33 combinations of start (0.48 to 0.505), learning rate (50 to 130) and "
    "length (3 to 5 epochs), with one seed each. It agrees with most of the paper's twelve numbers "
    "and claims; ties were broken by distance (`results/fc1-search.json`). We read the variance as "
    "that of one element of a drawn mask, g(1-g), averaged over the gates, which is at most 25 %."
)
WHY = (
    "Gates start just below 0.5, so the threshold closes all of them at first, and the loss opens "
    "those it needs. Our numbers differ in three ways. 1. Close to 0.5, lambda1 has little effect, "
    "and the loss moves gates first, so [T] at (1, 0) is lower. From a lower start, lambda1 closes "
    "more gates, but more than half of them also close without a price. 2. Our gates end closer "
    "to 0 or 1, so variances at lambda2 = 1 are lower. Shorter training raises them, but lowers "
    "[T] below 98 %. 3. With the threshold, half of the gates open within a few steps. Some "
    "channels of conv2 then stay silent, and how many depends on the seed. With starts of 0.3, "
    "0.7 and 0.9, the accuracies of all seeds are within 0.2 points."
)
TORCH = {f"(0, 0) {draw}, torch": draw for draw in DRAWS}
NEAR_HALF = 10.0  # points
NEAR_ACCURACY = 0.3  # points; three standard errors of an accuracy near 99 % on 10 000 images


@dataclass(frozen=True)
class LambdaTable(Exhibit):
    """Four pairs of prices, each with both draws."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        return "Table 5: effect of lambda1 and lambda2 on the sparsity of fc1"

    def plan(self) -> dict[str, Run[Any]]:
        """Eight runs, and two that show why the network matters."""
        runs = {
            f"{name} {draw}": fc1_gated(bimodal=bimodal, count=count, draw=draw)
            for name, (bimodal, count) in PAIRS.items()
            for draw in DRAWS
        }
        return runs | {name: fc1_gated(draw=draw, model="lenet5") for name, draw in TORCH.items()}

    def findings(self, studies: Studies) -> Findings:
        """Returns the paper's columns, our numbers next to the printed ones, and the claims."""
        found = {
            name: {column: _number(studies, name, column) for column in COLUMNS} for name in PAIRS
        }
        checks = tuple(
            Check(printed, found[printed.row][printed.column], COLUMNS[printed.column][2], digits=1)
            for printed in paper.LAMBDA.numbers()
        )
        rows = (HEADS, *(_row(name, found[name], studies) for name in PAIRS))
        whole = all(number is not None for row in found.values() for number in row.values())
        return Findings(
            self.title(),
            rows,
            checks,
            _claims(found, studies) if whole else (),
            (SETTING, CHOICE, WHY, *_cause(studies)),
        )


def _cause(studies: Studies) -> tuple[str, ...]:
    """Describes the same gates in a network whose biases start at random."""
    if any(name not in studies for name in TORCH):
        return ()
    both = [
        of(studies[name])
        for name, of in zip(TORCH, (threshold_sparsity, sampled_sparsity), strict=True)
    ]
    return (
        "Why this network: in Lasagne, biases start at zero, and ReLU passes half of the gradient "
        "at zero, so closed gates can open. In PyTorch's LeNet-5 (`lenet5`), biases start at "
        "random. A unit with a negative bias outputs zero while all its gates are closed; its "
        "ReLU passes no gradient, and the gates never open. With all other settings equal, "
        f"{_text(both[0], 1)} % [T] and {_text(both[1], 1)} % [S] close without a price there.",
    )


Found = dict[str, dict[str, Summary | None]]


def _number(studies: Studies, name: str, column: str) -> Summary | None:
    draw, of, _ = COLUMNS[column]
    study = studies.get(f"{name} {draw}")
    return None if study is None else of(study)


def _row(name: str, numbers: dict[str, Summary | None], studies: Studies) -> Row:
    accuracies = [
        None if (study := studies.get(f"{name} {draw}")) is None else accuracy(study)
        for draw in DRAWS
    ]
    return (
        name,
        *(_text(each, 1) for each in numbers.values()),
        *(_text(each, 2) for each in accuracies),
    )


def _text(number: Summary | None, digits: int) -> str:
    return "-" if number is None else f"{number.mean:.{digits}f} ± {number.spread:.{digits}f}"


def _claims(found: Found, studies: Studies) -> tuple[Claim, ...]:
    """Checks the paper's claims about its table against our numbers."""
    t, s, v = (
        {name: number.mean for name in PAIRS if (number := found[name][column])}
        for column in COLUMNS
    )
    half = [t["(0, 0)"], s["(0, 0)"]]
    closed = [t["(1, 1)"], t["(0, 1)"]]
    gaps = {name: t[name] - s[name] for name in PAIRS}
    tests = {name: [accuracy(studies[f"{name} {draw}"]).mean for draw in DRAWS] for name in PAIRS}
    apart = max(abs(one - other) for one, other in tests.values())
    calmer = v["(1, 0)"] < v["(0, 0)"] and v["(1, 1)"] < v["(0, 1)"]
    fall = (
        f"{v['(0, 0)']:.1f} to {v['(1, 0)']:.1f} without lambda2, "
        f"{v['(0, 1)']:.1f} to {v['(1, 1)']:.1f} with it"
    )
    return (
        Claim(
            "without a price about half of the gates close",
            max(abs(each - 50) for each in half) <= NEAR_HALF,
            f"{half[0]:.1f} % [T], {half[1]:.1f} % [S]",
        ),
        Claim(
            "lambda2 = 1 closes 98 to 99 % [T]",
            all(97.5 <= each < 99.5 for each in closed),
            f"{closed[0]:.1f} % and {closed[1]:.1f} %",
        ),
        Claim("lambda1 lowers the variance", calmer, fall),
        Claim(
            "the threshold is sparser than the sample",
            min(gaps.values()) > 0,
            ", ".join(f"{gap:+.1f} at {name}" for name, gap in gaps.items()),
        ),
        Claim(
            "both draws yield very similar accuracies",
            apart <= NEAR_ACCURACY,
            f"at most {apart:.2f} points apart",
        ),
    )
