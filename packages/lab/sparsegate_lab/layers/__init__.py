"""Layers, masks and wrappers that the compared methods need."""

from .acdc import Acdc
from .circulant import Circulant
from .codebook import Codebook, check_codebook
from .cosine import Cosine
from .dropout import add_dropout, dropout_rates, remove_dropout, scale_dropout_
from .fading import FadingDropout, fade_dropout_, restore_dropout_, set_left_
from .fastfood import Fastfood
from .gated_rectifier import GatedRectifier, Lowered, is_rectified, straighten_
from .hadamard import Hadamard
from .hessian import LayerHessian, measure_hessians
from .low_rank import LowRank
from .mask import Masked, add_masks, apply_masks_, cut_to_, masks, num_to_keep, remove_masks
from .noisy import Noisy, divergence
from .predicted import Predicted
from .replace import linears, replace_
from .resized import Resized
from .stand_in import StandIn, stand_ins
from .tensor_train import TensorTrain
from .units import GatedUnits
from .wrap import Layer, layers_of, unwrap_, wrap_

__all__ = [
    "Acdc",
    "Circulant",
    "Codebook",
    "Cosine",
    "FadingDropout",
    "Fastfood",
    "GatedRectifier",
    "GatedUnits",
    "Hadamard",
    "Layer",
    "LayerHessian",
    "LowRank",
    "Lowered",
    "Masked",
    "Noisy",
    "Predicted",
    "Resized",
    "StandIn",
    "TensorTrain",
    "add_dropout",
    "add_masks",
    "apply_masks_",
    "check_codebook",
    "cut_to_",
    "divergence",
    "dropout_rates",
    "fade_dropout_",
    "is_rectified",
    "layers_of",
    "linears",
    "masks",
    "measure_hessians",
    "num_to_keep",
    "remove_dropout",
    "remove_masks",
    "replace_",
    "restore_dropout_",
    "scale_dropout_",
    "set_left_",
    "stand_ins",
    "straighten_",
    "unwrap_",
    "wrap_",
]
