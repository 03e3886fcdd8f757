"""What compared methods put on or around ordinary layers."""

from .dropout import add_dropout, dropout_rates, remove_dropout, scale_dropout_
from .hessian import LayerHessian, measure_hessians
from .mask import Masked, add_masks, apply_masks_, cut_to_, masks, num_to_keep, remove_masks
from .noisy import Noisy
from .units import GatedUnits
from .wrap import Layer, layers_of, unwrap_, wrap_

__all__ = [
    "GatedUnits",
    "Layer",
    "LayerHessian",
    "Masked",
    "Noisy",
    "add_dropout",
    "add_masks",
    "apply_masks_",
    "cut_to_",
    "dropout_rates",
    "layers_of",
    "masks",
    "measure_hessians",
    "num_to_keep",
    "remove_dropout",
    "remove_masks",
    "scale_dropout_",
    "unwrap_",
    "wrap_",
]
