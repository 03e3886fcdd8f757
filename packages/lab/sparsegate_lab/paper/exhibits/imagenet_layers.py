"""Tables 3 and 4 of the paper: AlexNet and VGG-16 layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

from ..exhibit import Exhibit, Studies
from ..findings import Findings
from ..imagenet import NETWORKS, gated, lost, notes
from ..layer_rows import layer_checks, layer_rows
from ..verdict import Tolerance

SPARSITY = Tolerance(
    5.0,
    "points of sparsity; other data and one price for all gated layers distribute weights "
    "differently",
    "higher",
)


@dataclass(frozen=True)
class ImagenetLayers(Exhibit):
    """The layers of one network, from the study under results/."""

    network: str
    """alexnet or vgg16."""

    def title(self) -> str:
        """Its place in the paper and what it shows."""
        about = NETWORKS[self.network]
        return f"{about.layers.name}: {about.name} layer by layer"

    def wanted(self) -> str:
        """Every study of the network."""
        return f"{self.network}-*.json"

    def findings(self, studies: Studies) -> Findings:
        """Returns the layers of the study closest to the paper's rate, or the paper's alone."""
        about, study = NETWORKS[self.network], gated(self.network, studies)
        return Findings(
            self.title(),
            layer_rows(study, about.layers, about.parts),
            layer_checks(study, about.layers, about.parts, SPARSITY),
            lost(self.network, studies),
            notes(self.network, study),
        )
