"""The registered model that a network's tensors belong to."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from sparsegate.files import Packed
from sparsegate_lab.models import MODELS, matching_model

from .network_file import open_network, settings_around

OTHER_FLOATS = dict.fromkeys(("F16", "BF16", "F64"), "F32")  # registered models are in float32


def open_model(path: Path, name: str | None = None) -> tuple[str, nn.Module]:
    """A registered model with the tensors of a file or of a run, and its name."""
    own = settings_around(path).get("model")
    if own is not None and name is not None and own != name:
        raise ValueError(f"{path} is a network of {own}, got --model {name}; leave it out")
    found = model_of(open_network(path), own or name)
    if found is None:
        raise ValueError(
            f"the tensors in {path} are not those of a registered model ({', '.join(MODELS)}); a model of your own "
            "is for Python: sg.sparse times it, sg.to_c writes it"
        )
    return found


def model_of(packed: Packed, name: str | None = None) -> tuple[str, nn.Module] | None:
    """The registered model that has the network's tensors, with the network in it, after its name; or none."""
    entries = {key: packed.entries[packed.same.get(key, key)] for key in packed}
    shapes = {
        key: (OTHER_FLOATS.get(each.dtype, each.dtype), each.shape) for key, each in entries.items()
    }
    found = matching_model(shapes)
    if name is not None and (found is None or found[0] != name):
        MODELS[name]  # an unknown name is answered with the known ones
        raise ValueError(
            f"the tensors are not those of {name}" + (f", but of {found[0]}" if found else "")
        )
    return (found[0], packed.into(MODELS[found[0]](num_classes=found[1]))) if found else None
