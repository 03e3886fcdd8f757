"""Layers, masks and wrappers that the compared methods need."""

from .acdc import AcdcLayer
from .circulant import CirculantLayer
from .codebook import Codebook, check_codebook
from .cosine import Cosine
from .dropout import add_dropout, dropout_rates, remove_dropout, scale_dropout_
from .erk import erk_counts
from .fading import FadingDropout, fade_dropout_, restore_dropout_, set_left_
from .fastfood import FastfoodLayer
from .gated_rectifier import GatedRectifier, Lowered, is_rectified, straighten_
from .hadamard import Hadamard
from .hessian import LayerHessian, measure_hessians
from .low_rank import LowRank
from .mask import Masked, add_masks, apply_masks_, cut_to_, masks, num_to_keep, remove_masks
from .noisy import Noisy, divergence
from .predicted import PredictedLayer
from .replace import linears, replace_
from .resized import Resized
from .scores import SCORES, Scores, lamp, magnitudes, ranks
from .stand_in import StandIn, stand_ins
from .tensor_train import TensorTrainLayer
from .thresholded import Thresholded, set_thresholds_, straight_through, thresholded
from .units import GatedUnits
from .wrap import Layer, apply_layer, layers_of, unwrap_, wrap_

__all__ = [
    "SCORES",
    "AcdcLayer",
    "CirculantLayer",
    "Codebook",
    "Cosine",
    "FadingDropout",
    "FastfoodLayer",
    "GatedRectifier",
    "GatedUnits",
    "Hadamard",
    "Layer",
    "LayerHessian",
    "LowRank",
    "Lowered",
    "Masked",
    "Noisy",
    "PredictedLayer",
    "Resized",
    "Scores",
    "StandIn",
    "TensorTrainLayer",
    "Thresholded",
    "add_dropout",
    "add_masks",
    "apply_layer",
    "apply_masks_",
    "check_codebook",
    "cut_to_",
    "divergence",
    "dropout_rates",
    "erk_counts",
    "fade_dropout_",
    "is_rectified",
    "lamp",
    "layers_of",
    "linears",
    "magnitudes",
    "masks",
    "measure_hessians",
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
    "straighten_",
    "thresholded",
    "unwrap_",
    "wrap_",
]
