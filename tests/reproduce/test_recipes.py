"""Every recipe is a run of the paper's network on all of its digits."""

import pytest

from sparsegate.methods import METHODS, LearnedGates
from sparsegate.models import MODELS
from sparsegate.reproduce import RECIPES


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


def test_the_demo_is_the_shortest_recipe():
    epochs = {name: make().epochs for name, make in RECIPES.items()}
    assert min(epochs, key=epochs.__getitem__) == "lenet5-demo"
