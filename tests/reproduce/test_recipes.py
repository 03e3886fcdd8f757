"""Every recipe is a run of the paper's network on all of its digits."""

import pytest

from sparsegate.methods import METHODS, LearnedGates
from sparsegate.models import MODELS
from sparsegate.reproduce import RECIPES
from sparsegate.train import count_layers, empty_network


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains_its_network_on_mnist(name):
    run = RECIPES[name]()
    assert run.model in MODELS
    assert run.data == "mnist"
    assert name.startswith(f"{run.model}-")


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


@pytest.mark.parametrize("name", METHODS)
def test_a_recipe_that_is_named_after_a_method_uses_it(name):
    for recipe in (f"lenet5-{name}", f"lenet5-{name}_penalty"):
        if recipe in RECIPES:
            assert RECIPES[recipe]().method_name == name


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


LONGER = {"lenet5-demo", "lenet5-method1", "lenet5-method2", "lenet5-paper-size", "lenet5-sparse_vd", "lenet5-gsm"}


def test_what_is_compared_is_trained_equally_long():
    assert {make().epochs for name, make in RECIPES.items() if name not in LONGER} == {30}
