"""The paper's two ImageNet networks, and the experiments that replace ImageNet here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from sparsegate_lab.record import CONTENT, Record
from sparsegate_lab.study import Study, Summary

from . import paper
from .contest import Contestant
from .layer_rows import Parts
from .printed import Printed, PrintedTable
from .verdict import Claim

OURS, BASELINE = "Proposed method", "Baseline"


@dataclass(frozen=True)
class PaperNetwork:
    """A network of the paper, and which of its weights make up each row of the paper."""

    name: str
    layers: PrintedTable
    compare: PrintedTable
    parts: Parts

    @property
    def rate(self) -> Printed:
        """How many times fewer weights the paper's network has."""
        return self._number(OURS, "rate")

    @property
    def fall(self) -> float:
        """How many points of accuracy the paper's network gains over its baseline."""
        return self._number(OURS, "accuracy").value - self._number(BASELINE, "accuracy").value

    def _number(self, row: str, column: str) -> Printed:
        number = self.compare.number(row, column)
        assert number is not None
        return number

    def fits(self, study: Study) -> bool:
        """Whether the study's network has the layers that the rows describe."""
        return all(len(record.layers) == self.parts["total"].stop for record in study.records)


NETWORKS = {
    "alexnet": PaperNetwork(
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
    "vgg16": PaperNetwork(
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
    """Returns the study of learned gates closest to the paper's rate; the first name wins a tie."""
    about = NETWORKS[network]
    fitting = [
        study
        for _, study in sorted(studies.items())
        if Contestant("", study).is_gates and about.fits(study)
    ]
    return min(
        fitting,
        key=lambda study: abs(math.log(Contestant("", study).rate.mean / about.rate.value)),
        default=None,
    )


def dense(network: str, studies: Mapping[str, Study]) -> Study | None:
    """Returns the study of the same network without gates, if there is one."""
    found = (
        study
        for _, study in sorted(studies.items())
        if study.records[0].run["method"]["name"] == "dense"
    )
    return next((study for study in found if NETWORKS[network].fits(study)), None)


def lost(network: str, studies: Mapping[str, Study]) -> tuple[Claim, ...]:
    """Checks that accuracy falls no further than in the paper, each against its dense network."""
    about, ours, whole = NETWORKS[network], gated(network, studies), dense(network, studies)
    fall = min(0.0, round(about.fall, 2))
    words = f"falls by at most {-fall:g} points" if fall else "does not fall"
    text = f"at {about.rate.text} accuracy {words} (within two standard errors)"
    if ours is None or whole is None:
        return (Claim(text, None),)
    sparse, full = Contestant("", ours), Contestant("", whole)
    more, noise = difference(sparse, full)
    evidence = (
        f"{more:+.2f} ± {noise:.2f} at {sparse.rate.mean:.1f}x, on other data: "
        f"{sparse.test.mean:.2f} % against {full.test.mean:.2f} %"
    )
    return (Claim(text, more >= fall - noise, evidence),)


def difference(sparse: Contestant, full: Contestant) -> tuple[float, float]:
    """Returns the gain over the dense network and two standard errors, paired where possible."""
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
    """Returns the dense network that a run started from, if its record is here."""
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
    """Describes what was run instead of ImageNet, or what would have to be run."""
    if study is None:
        return (
            "We have no record yet; only the paper's numbers are shown. The paper fine-tunes "
            f"pretrained weights on ImageNet. The recipe `{network}-imagenet` does so if you have "
            f"ImageNet, and `{network}-imagenette` uses ten of its classes. `python "
            "benchmarks/gpu_train.py --data DATA --out results` writes "
            f"`results/{network}-imagenette*.json` on a GPU.",
        )
    record = study.records[0]
    run, classes = record.run, record.layers[-1].shape[0]
    return (
        "**This is not ImageNet**, which the paper uses and we do not have. We ran the whole "
        f"network ({run['model']}, {record.total:,} weights) on {run['data']} with {classes} "
        f"classes, {run['epochs']} epochs, {len(study.records)} seeds. With fewer classes, fc8 is "
        "smaller and the task is easier. Compare the rates and the difference from the dense "
        "network with the paper's, but not the accuracies.",
        f"Gates on: {', '.join(run['method'].get('only', ['*']))} (`*` means every layer; the "
        f"paper does not prune early convolutions). Made by `{study.command}`.",
    )
