"""Named runs with measured settings; each is a function that builds its run when called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparsegate_lab.train import Run
from sparsegate_runtime.registry import Registry

from . import cifar10, compare, lenet5, photographs, stand_ins
from .compare import CONTESTANTS
from .small import STUDENTS
from .student import Student, agreeing, train_students

RECIPES: Registry[Callable[[], Run[Any]]] = Registry(
    "recipe",
    {
        "lenet5-demo": lenet5.demo,
        "lenet5-method1": lenet5.method1,
        "lenet5-method2": lenet5.method2,
        "lenet5-200x": lenet5.smallest_on_two_cores,
        "lenet5-gates-18k": lenet5.gates_18k,
        "lenet5-gates-22k": lenet5.gates_22k,
        "lenet5-gates-36k": lenet5.gates_36k,
        "lenet5-gates-40k": lenet5.gates_40k,
        "lenet5-dense": compare.dense,
        "lenet5-svd": stand_ins.svd,
        "lenet5-svd-quarter": stand_ins.svd_quarter,
        "lenet5-fastfood-1024": stand_ins.fastfood_1024,
        "lenet5-fastfood-32": stand_ins.fastfood_32,
        "lenet5-fastfood-16": stand_ins.fastfood_16,
        "lenet5-acdc": stand_ins.acdc,
        "lenet5-neuron": stand_ins.neuron,
        "lenet5-tensor-train": stand_ins.tensor_train,
        "lenet5-circulant": stand_ins.circulant,
        "lenet5-predicted": stand_ins.predicted,
        "lenet5-product-quantised": stand_ins.product_quantised,
        "lenet5-magnitude": compare.magnitude,
        "lenet5-architecture": compare.architecture,
        "lenet5-collins_kohli": compare.collins_kohli,
        "lenet5-lasso": compare.lasso,
        "lenet5-lasso_penalty": compare.lasso_penalty,
        "lenet5-obd": compare.obd,
        "lenet5-obs": compare.obs,
        "lenet5-sparse_vd": compare.sparse_vd,
        "lenet5-gsm": compare.gsm,
        "alexnet-imagenet": photographs.alexnet_imagenet,
        "vgg16-imagenet": photographs.vgg16_imagenet,
        "alexnet-imagenette-dense": photographs.alexnet_imagenette_dense,
        "alexnet-imagenette": photographs.alexnet_imagenette,
        "alexnet-imagenette-36x": photographs.alexnet_imagenette_36x,
        "alexnet-imagenette-100x": photographs.alexnet_imagenette_100x,
        "alexnet-imagenette-300x": photographs.alexnet_imagenette_300x,
        "vgg16-imagenette-dense": photographs.vgg16_imagenette_dense,
        "vgg16-imagenette": photographs.vgg16_imagenette,
        "vgg16-imagenette-34x": photographs.vgg16_imagenette_34x,
        "vgg16-imagenette-100x": photographs.vgg16_imagenette_100x,
        "vgg16-imagenette-300x": photographs.vgg16_imagenette_300x,
        "vgg16-cifar10-dense": cifar10.vgg16_dense,
        "vgg16-cifar10-25x": cifar10.vgg16_25x,
        "vgg16-cifar10-100x": cifar10.vgg16_100x,
        "vgg16-cifar10-1000x": cifar10.vgg16_1000x,
    },
)

__all__ = ["CONTESTANTS", "RECIPES", "STUDENTS", "Student", "agreeing", "train_students"]
