"""Every table and figure of the paper, by name."""

from __future__ import annotations

from sparsegate_runtime.registry import Registry

from ..exhibit import Exhibit
from .figure_init import FIGURE_INIT
from .figure_lambda1 import FIGURE_LAMBDA1
from .figure_lambda2 import FIGURE_LAMBDA2
from .figure_lasso import FigureLasso
from .figure_method import FigureMethod
from .figure_prior import FigurePrior
from .figure_regulariser import FigureRegulariser
from .imagenet_compare import ImagenetCompare
from .imagenet_layers import ImagenetLayers
from .lambda_table import LambdaTable
from .lenet5_compare import Lenet5Compare
from .lenet5_layers import Lenet5Layers

EXHIBITS: Registry[Exhibit] = Registry(
    "exhibit",
    {
        "lambda-table": LambdaTable(),
        "figure-init": FIGURE_INIT,
        "figure-lambda1": FIGURE_LAMBDA1,
        "figure-lambda2": FIGURE_LAMBDA2,
        "figure-regulariser": FigureRegulariser(),
        "figure-prior": FigurePrior(),
        "figure-method": FigureMethod(),
        "figure-lasso": FigureLasso(),
        "lenet5-layers": Lenet5Layers(),
        "lenet5-compare": Lenet5Compare(),
        "alexnet-layers": ImagenetLayers("alexnet"),
        "alexnet-compare": ImagenetCompare("alexnet"),
        "vgg16-layers": ImagenetLayers("vgg16"),
        "vgg16-compare": ImagenetCompare("vgg16"),
    },
)

__all__ = ["EXHIBITS"]
