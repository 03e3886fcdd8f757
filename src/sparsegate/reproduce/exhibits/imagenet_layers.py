"""Tables 3 and 4 of the paper: AlexNet and VGG-16 layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

from ..exhibit import Exhibit, Studies
from ..findings import Findings
from ..imagenet import NETWORKS, notes
from ..layer_rows import layer_checks, layer_rows
from ..verdict import Tolerance

SPARSITY = Tolerance(5.0, "points of sparsity, where the data is the paper's", "higher")


@dataclass(frozen=True)
class ImagenetLayers(Exhibit):
    """The layers of one network, from the study that the results hold."""

    network: str
    """alexnet or vgg16."""

    def title(self) -> str:
        """Where it stands and what it shows."""
        about = NETWORKS[self.network]
        return f"{about.layers.name}: {about.name} layer by layer"

    def wanted(self) -> str:
        """Every study of the network."""
        return f"{self.network}-*.json"

    def findings(self, studies: Studies) -> Findings:
        """The layers of the sparsest study, and where there is none, the paper's alone."""
        about = NETWORKS[self.network]
        fitting = [each for each in studies.values() if about.fits(each)]
        study = min(fitting, key=lambda each: each.summary(lambda record: record.kept).mean, default=None)
        return Findings(
            self.title(),
            layer_rows(study, about.layers, about.parts),
            layer_checks(study, about.layers, about.parts, SPARSITY),
            notes=notes(self.network, study),
        )
