"""Layers, masks and wrappers that the compared methods need."""

from .dropout import add_dropout, dropout_rates, remove_dropout, scale_dropout_
from .fading import FadingDropout, fade_dropout_, restore_dropout_, set_left_
from .mask import Masked, add_masks, apply_masks_, cut_to_, masks, num_to_keep, remove_masks
from .replace import linears, replace_
from .resized import Resized
from .scores import SCORES, Scores, lamp, magnitudes, ranks
from .stand_in import StandIn, stand_ins
from .thresholded import Thresholded, set_thresholds_, straight_through, thresholded
from .wrap import Layer, apply_layer, layers_of, unwrap_, wrap_

__all__ = [
    "SCORES",
    "FadingDropout",
    "Layer",
    "Masked",
    "Resized",
    "Scores",
    "StandIn",
    "Thresholded",
    "add_dropout",
    "add_masks",
    "apply_layer",
    "apply_masks_",
    "cut_to_",
    "dropout_rates",
    "fade_dropout_",
    "lamp",
    "layers_of",
    "linears",
    "magnitudes",
    "masks",
    "num_to_keep",
    "ranks",
    "remove_dropout",
    "remove_masks",
    "replace_",
    "restore_dropout_",
    "scale_dropout_",
    "set_left_",
    "set_thresholds_",
    "stand_ins",
    "straight_through",
    "thresholded",
    "unwrap_",
    "wrap_",
]
