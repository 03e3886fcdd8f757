"""The paper's two networks for ImageNet, and what stands in for them here."""

from __future__ import annotations

from dataclasses import dataclass

from sparsegate.study import Study

from . import paper
from .layer_rows import Parts
from .printed import PrintedTable


@dataclass(frozen=True)
class Network:
    """A network of the paper, and how its weights make up the paper's rows."""

    name: str
    layers: PrintedTable
    compare: PrintedTable
    parts: Parts

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


def notes(network: str, study: Study | None) -> tuple[str, ...]:
    """What was run in the place of ImageNet, or what would have to be run."""
    if study is None:
        return (
            "No record of ours exists yet; the numbers are the paper's alone. The paper fine-tunes pretrained weights "
            f"on ImageNet. A recipe for {NETWORKS[network].name} and a folder of images would make one: "
            f"`python benchmarks/seeds.py {network}-RECIPE` writes `results/{network}-RECIPE.json`, read here.",
        )
    run = study.records[0].run
    return (
        f"Ours was trained on {run['data']} with {run['model']}, {run['epochs']} epochs, {len(study.records)} seeds; "
        f"the paper fine-tuned on ImageNet. Made by `{study.command}`.",
    )
