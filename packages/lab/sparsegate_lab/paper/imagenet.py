"""The paper's two networks for ImageNet, and what stands in for them here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from sparsegate_lab.record import CONTENT, Record
from sparsegate_lab.study import Study, Summary

from . import paper
from .contest import Entry
from .layer_rows import Parts
from .printed import Printed, PrintedTable
from .verdict import Claim

OURS, BASELINE = "Proposed method", "Baseline"


@dataclass(frozen=True)
class Network:
    """A network of the paper, and how its weights make up the paper's rows."""

    name: str
    layers: PrintedTable
    compare: PrintedTable
    parts: Parts

    @property
    def rate(self) -> Printed:
        """How many times fewer weights the paper's own network has."""
        return self._number(OURS, "rate")

    @property
    def fall(self) -> float:
        """Points of accuracy that the paper's own network has more than its baseline."""
        return self._number(OURS, "accuracy").value - self._number(BASELINE, "accuracy").value

    def _number(self, row: str, column: str) -> Printed:
        number = self.compare.number(row, column)
        assert number is not None
        return number

    def fits(self, study: Study) -> bool:
        """Whether the study's network has the layers that the rows speak of."""
        return all(len(record.layers) == self.parts["total"].stop for record in study.records)


NETWORKS = {
    "alexnet": Network(
        "AlexNet",
        paper.ALEXNET_LAYERS,
        paper.ALEXNET_COMPARE,
        {
            "conv (5 layers)": slice(0, 5),
            "fc6": slice(5, 6),
            "fc7": slice(6, 7),
            "fc8": slice(7, 8),
            "total": slice(0, 8),
        },
    ),
    "vgg16": Network(
        "VGG-16",
        paper.VGG16_LAYERS,
        paper.VGG16_COMPARE,
        {
            "conv1_1 to conv4_3 (10 layers)": slice(0, 10),
            "conv5_1": slice(10, 11),
            "conv5_2": slice(11, 12),
            "conv5_3": slice(12, 13),
            "fc6": slice(13, 14),
            "fc7": slice(14, 15),
            "fc8": slice(15, 16),
            "total": slice(0, 16),
        },
    ),
}


def gated(network: str, studies: Mapping[str, Study]) -> Study | None:
    """The study of learned gates whose rate is nearest to the paper's; of equals the first by name."""
    about = NETWORKS[network]
    fitting = [
        study
        for _, study in sorted(studies.items())
        if Entry("", study).is_gates and about.fits(study)
    ]
    return min(
        fitting,
        key=lambda study: abs(math.log(Entry("", study).rate.mean / about.rate.value)),
        default=None,
    )


def dense(network: str, studies: Mapping[str, Study]) -> Study | None:
    """The study of the same network without gates, if there is one."""
    found = (
        study
        for _, study in sorted(studies.items())
        if study.records[0].run["method"]["name"] == "dense"
    )
    return next((study for study in found if NETWORKS[network].fits(study)), None)


def lost(network: str, studies: Mapping[str, Study]) -> tuple[Claim, ...]:
    """That accuracy falls no further at the paper's rate than there, each against its own dense network."""
    about, ours, whole = NETWORKS[network], gated(network, studies), dense(network, studies)
    fall = min(0.0, round(about.fall, 2))
    words = f"falls by {-fall:g} points at the most" if fall else "does not fall"
    text = f"at {about.rate.text} accuracy {words} (within two standard errors)"
    if ours is None or whole is None:
        return (Claim(text, None),)
    sparse, full = Entry("", ours), Entry("", whole)
    more, noise = difference(sparse, full)
    evidence = (
        f"{more:+.2f} ± {noise:.2f} at {sparse.rate.mean:.1f}x, on other data: "
        f"{sparse.test.mean:.2f} % against {full.test.mean:.2f} %"
    )
    return (Claim(text, more >= fall - noise, evidence),)


def difference(sparse: Entry, full: Entry) -> tuple[float, float]:
    """What a network has more than the dense one, and two standard errors; in pairs where each began with one."""
    pairs = [
        record.test - dense.test
        for record in sparse.study.records
        if (dense := began_with(record, full.study.records))
    ]
    if len(pairs) > 1:
        found = Summary.of(pairs)
        return found.mean, 2 * found.spread / math.sqrt(len(pairs))
    noise = 2 * math.hypot(sparse.noise(full.test.spread), full.noise(sparse.test.spread))
    return sparse.test.mean - full.test.mean, noise


def began_with(record: Record, dense: Iterable[Record]) -> Record | None:
    """The dense network whose weights a run began with, itself if it is one; none if that was made anew since."""
    first, names = record.run.get(CONTENT), (record.name, PurePath(record.run["weights"]).name)
    return next(
        (
            each
            for each in dense
            if each.name in names and each.content in ("", record.content, first)
        ),
        None,
    )


def notes(network: str, study: Study | None) -> tuple[str, ...]:
    """What was run in the place of ImageNet, or what would have to be run."""
    if study is None:
        return (
            "No record of ours exists yet; the numbers are the paper's alone. The paper fine-tunes pretrained weights "
            f"on ImageNet, which the recipe `{network}-imagenet` does where it is at hand; `{network}-imagenette` does "
            f"it with ten classes. `python benchmarks/gpu_train.py --data DATA --out results` writes "
            f"`results/{network}-imagenette*.json` on a GPU, read here.",
        )
    record = study.records[0]
    run, classes = record.run, record.layers[-1].shape[0]
    return (
        "**This is not ImageNet**, on which the paper fine-tuned and which we do not have. Run instead: the whole "
        f"network ({run['model']}, {record.total:,} weights) on {run['data']} with {classes} classes, "
        f"{run['epochs']} epochs, seeds: {len(study.records)}. With fewer classes fc8 is smaller and the task easier, "
        "so rates and the difference from the dense network may be compared with the paper's, accuracies not.",
        f"Gates on: {', '.join(run['method'].get('only', ['*']))} (`*` is every layer; the paper leaves early "
        f"convolutions whole). Made by `{study.command}`.",
    )
