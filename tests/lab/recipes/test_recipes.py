"""Every recipe is a run of a registered network on its data."""

from fnmatch import fnmatchcase

import pytest
import torch
from torch import nn

from sparsegate.gates import gates
from sparsegate.target import Target
from sparsegate_lab.data import DATASETS
from sparsegate_lab.methods import METHODS, LearnedGates
from sparsegate_lab.models import MODELS
from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.train import count_layers, empty_network


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_named_after_its_network_and_its_data(name):
    run = RECIPES[name]()
    assert run.model in MODELS
    assert run.data in DATASETS
    assert name.split("-")[0] == run.model.split("-")[0]
    assert name.split("-")[1] == run.data or (run.model, run.data) == ("lenet5", "mnist")


def weights_of(name, num_classes=1000):
    """The network of a recipe, without its numbers: it would take gigabytes."""
    with torch.device("meta"):
        model = MODELS[RECIPES[name]().model](num_classes=num_classes)
    return {path: weight for path, weight in model.named_parameters() if weight.ndim > 1}


def starting(name):
    """The gates of small layers that have the names of a recipe's network, as the recipe starts them."""
    small = nn.Module()
    small.add_module(
        "dropout", nn.Dropout()
    )  # the real networks have some, which recipes may let fade
    for path in weights_of(name):
        *above, last, _ = path.split(".")
        place = small
        for part in above:
            if not hasattr(place, part):
                place.add_module(part, nn.Module())
            place = getattr(place, part)
        place.add_module(last, nn.Linear(100, 10))
    prepared = gates(RECIPES[name]().method.prepare(small))
    return {path.removesuffix(".weight"): each.gate.detach() for path, each in prepared.items()}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("alexnet-imagenet", dict.fromkeys(("fc6", "fc7", "fc8"), 0.05)),
        (
            "alexnet-imagenette",
            dict.fromkeys(("classifier.1", "classifier.4", "classifier.6"), 0.05),
        ),
        (
            "vgg16-imagenet",
            dict.fromkeys(("features.26", "features.28"), 0.12)
            | dict.fromkeys(("classifier.0", "classifier.3", "classifier.6"), 0.05),
        ),
    ],
)
def test_gates_start_nearly_all_closed_where_the_paper_has_them_so(name, wanted):
    started = starting(name)
    assert {
        layer: round(float((gate > 0.5).float().mean()), 3) for layer, gate in started.items()
    } == wanted
    assert all(float(gate.min()) == pytest.approx(0.49) for gate in started.values())


@pytest.mark.parametrize(
    ("name", "steps", "num_classes"),
    [
        ("alexnet-imagenet", 30_000, 1000),
        ("vgg16-imagenet", 40_000, 1000),
    ],
)
def test_the_price_alone_would_move_a_gate_a_few_times_from_end_to_end(name, steps, num_classes):
    method, weights = RECIPES[name]().method, weights_of(name, num_classes)
    gated = [
        each
        for path, each in weights.items()
        if any(fnmatchcase(path, only) for only in method.only)
    ]
    num_gates = sum(weight.numel() for weight in gated)
    assert 10 * method.gate_lr * method.penalty.count * steps / num_gates == pytest.approx(
        4, rel=0.15
    )


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("alexnet-imagenette", 10.3),
        ("alexnet-imagenette-36x", 36),
        ("alexnet-imagenette-100x", 100),
        ("alexnet-imagenette-300x", 300),
        ("vgg16-imagenette", 14),
        ("vgg16-imagenette-34x", 34),
        ("vgg16-imagenette-100x", 100),
        ("vgg16-imagenette-300x", 300),
        ("vgg16-cifar10-25x", 25),
        ("vgg16-cifar10-100x", 100),
        ("vgg16-cifar10-1000x", 1000),
    ],
)
def test_a_recipe_for_a_rate_leaves_that_many_times_fewer_weights(name, rate):
    method, weights = RECIPES[name]().method, weights_of(name, num_classes=10)
    sizes = {path: each.numel() for path, each in weights.items()}
    gated = sum(
        size for path, size in sizes.items() if any(fnmatchcase(path, only) for only in method.only)
    )
    left = method.target.weights or round(method.target.keep * gated)
    assert sum(sizes.values()) / (sum(sizes.values()) - gated + left) == pytest.approx(
        rate, rel=1e-3
    )


@pytest.mark.parametrize("name", ["lenet5-demo", "lenet5-method1", "lenet5-method2"])
def test_recipes_of_the_papers_method_gate_all_weights(name):
    method = RECIPES[name]().method
    assert isinstance(method, LearnedGates)
    assert method.only == ("*",)


# Weights, and weights and indices, as the recipes' own arithmetic has it.
COUNTS = {
    "lenet5-svd": (43_500, 43_500),
    "lenet5-svd-quarter": (193_000, 193_000),
    "lenet5-fastfood-1024": (38_812, 38_812),
    "lenet5-fastfood-32": (158_620, 158_620),
    "lenet5-fastfood-16": (118_684, 118_684),
    "lenet5-acdc": (85_796, 85_796),
    "lenet5-neuron": (280_650, 280_650),
    "lenet5-tensor-train": (38_816, 38_816),
    "lenet5-circulant": (31_300, 31_300),
    "lenet5-predicted": (80_500, 80_500),
    "lenet5-product-quantised": (43_300, 49_550),
}


@pytest.mark.parametrize("name", COUNTS)
def test_recipes_with_other_layers_have_the_weights_that_they_promise(name):
    layers = count_layers(empty_network(RECIPES[name]()))
    kept = sum(layer.kept for layer in layers)
    assert (kept, kept + sum(layer.num_indices for layer in layers)) == COUNTS[name]
    assert sum(layer.total for layer in layers) == 430_500


@pytest.mark.parametrize(
    ("name", "printed"),
    [("lenet5-svd", 43_600), ("lenet5-fastfood-1024", 38_800)]
    + [
        (f"lenet5-{name}", 430_500 / ratio)
        for name, ratio in {
            "svd-quarter": 60.9 / 25.6,
            "fastfood-32": 60.9 / 22.5,
            "fastfood-16": 60.9 / 16.4,
            "acdc": 60.9 / 11.9,
            "neuron": 60.9 / 39.6,
        }.items()
    ],
)
def test_the_papers_count_or_its_ratio_on_alexnet_is_met_within_a_tenth(name, printed):
    assert COUNTS[name][0] == pytest.approx(printed, rel=0.1)


OTHERWISE = {"learned_gates", "fastfood", "tensor_train", "product_quantised"}
"""Methods whose recipes have other names."""
COMPARED = {"alternating", "feather", "gradual_magnitude", "learned_thresholds", "rigl", "st3"}
"""Methods without a recipe: `sparsegate compare` trains them."""


@pytest.mark.parametrize("name", METHODS)
def test_a_recipe_that_is_named_after_a_method_uses_it(name):
    named = {f"lenet5-{name}", f"lenet5-{name}_penalty"} & set(RECIPES)
    assert bool(named) == (name not in OTHERWISE | COMPARED)
    assert all(RECIPES[recipe]().method_name == name for recipe in named)
    assert any(make().method_name == name for make in RECIPES.values()) == (name not in COMPARED)


def test_no_two_recipes_are_the_same_run():
    names = [make().name for make in RECIPES.values()]
    assert len(set(names)) == len(names) > 0


def test_a_recipe_is_the_same_run_every_time():
    assert all(make() == make() for make in RECIPES.values())


def test_no_recipe_has_the_name_of_a_model():
    assert not set(RECIPES) & set(MODELS)


def test_the_sparser_method_of_the_paper_pays_more_for_its_weights():
    prices = [RECIPES[name]().method.penalty.count for name in ("lenet5-method1", "lenet5-method2")]
    assert prices[0] > prices[1] > 0


def test_the_demo_is_the_shortest_of_the_three_to_begin_with():
    epochs = [RECIPES[f"lenet5-{name}"]().epochs for name in ("demo", "method1", "method2")]
    assert epochs[0] < min(epochs[1:])


def test_the_recipe_for_two_cores_asks_for_a_two_hundredth_with_the_settings_of_its_record():
    method = RECIPES["lenet5-200x"]().method
    settings = {"travel": 10.0, "begin": 0.15, "reach": 0.6}
    assert method == LearnedGates(target=Target(weights=430_500 // 200, **settings))


LONGER = {
    "lenet5-demo",
    "lenet5-200x",
    "lenet5-method1",
    "lenet5-method2",
    "lenet5-paper-size",
    "lenet5-sparse_vd",
    "lenet5-gsm",
}


def test_what_is_compared_is_trained_equally_long():
    compared = [
        make()
        for name, make in RECIPES.items()
        if name.startswith("lenet5-") and name not in LONGER
    ]
    assert {run.epochs for run in compared} == {30}
