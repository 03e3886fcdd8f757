"""Weights are chosen by layer type and name, and what cannot carry a gate is refused."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from sparsegate.gates import Select, gate, gates


class Scale(nn.Module):
    """A layer type that the package does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))

    def forward(self, inputs):
        return inputs * self.weight


class Doubled(nn.Linear):
    """A subclass of a known layer."""


class Negated(nn.Module):
    """Another parametrization."""

    def forward(self, weight):
        return -weight


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 4), nn.Linear(4, 2)
    )


def names(model: nn.Module, **choice) -> list[str]:
    return [site.name for site in Select(**choice).sites(model)]


def test_every_weight_is_chosen_and_no_bias_or_norm():
    assert names(network()) == ["0.weight", "3.weight", "4.weight"]


def test_layers_are_chosen_by_type():
    assert names(network(), types=(nn.Conv2d,)) == ["0.weight"]


def test_weights_are_chosen_by_name():
    assert names(network(), names=("4.*", "0.*")) == ["0.weight", "4.weight"]


def test_skipped_weights_are_left_alone():
    assert names(network(), skip=("3.weight",)) == ["0.weight", "4.weight"]


def test_skip_is_stronger_than_names():
    assert names(network(), names=("3.*", "4.*"), skip=("4.*",)) == ["3.weight"]


def test_patterns_match_the_case_and_the_whole_name():
    with pytest.raises(ValueError, match="no weight matches"):
        names(nn.ModuleDict({"FC": nn.Linear(2, 2)}), names=("fc*", "FC"))


def test_a_subclass_counts_as_its_layer():
    assert names(nn.Sequential(Doubled(2, 2))) == ["0.weight"]


def test_your_own_layer_type_can_be_named():
    model = gate(nn.Sequential(Scale(), nn.Linear(3, 1)), select=Select(types=(Scale,)))
    assert list(gates(model)) == ["0.weight"]
    assert model(torch.ones(2, 3)).shape == (2, 1)


def test_if_no_name_matches_the_error_lists_the_weights_that_are_there():
    with pytest.raises(ValueError, match=r"names=\['fc\*'\].*0\.weight, 3\.weight, 4\.weight"):
        gate(network(), select=Select(names=("fc*",)))


def test_if_all_is_skipped_the_error_says_so():
    with pytest.raises(ValueError, match=r"skip=\['\*'\].*0\.weight"):
        gate(network(), select=Select(skip=("*",)))


def test_if_no_type_matches_the_error_lists_the_types_and_says_how_to_name_yours():
    with pytest.raises(ValueError, match=r"Linear, .*Select\(types=\(MyLayer,\)\)"):
        gate(nn.Sequential(Scale()))


def test_a_lazy_layer_is_an_error_until_it_has_a_shape():
    model = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(ValueError, match="run one batch"):
        gate(model)
    model(torch.ones(1, 2))
    assert list(gates(gate(model))) == ["0.weight"]


def test_a_lazy_layer_that_is_not_chosen_is_no_error():
    model = gate(nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 2)), select=Select(names=("1.*",)))
    assert list(gates(model)) == ["1.weight"]


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_a_sparse_embedding_is_an_error(kind):
    with pytest.raises(ValueError, match="sparse=False"):
        gate(nn.Sequential(kind(3, 2, sparse=True)))


def test_a_sparse_embedding_that_is_tied_to_a_chosen_weight_is_an_error_too():
    model = nn.ModuleDict(
        {"words": nn.Embedding(3, 2, sparse=True), "head": nn.Linear(2, 3, bias=False)}
    )
    model["head"].weight = model["words"].weight
    with pytest.raises(ValueError, match="sparse=False"):
        gate(model, select=Select(names=("head.*",)))


def test_a_complex_weight_is_an_error():
    with pytest.raises(ValueError, match="floating-point"):
        gate(nn.Linear(2, 2, dtype=torch.complex64))


def test_a_weight_with_a_parametrization_is_an_error_that_says_how_to_skip_it():
    model = network()
    parametrize.register_parametrization(model[3], "weight", Negated())
    with pytest.raises(
        ValueError, match=r"3\.weight has a parametrization.*Select\(skip=\('3\.weight',\)\)"
    ):
        gate(model)
    assert list(gates(gate(model, select=Select(skip=("3.weight",))))) == ["0.weight", "4.weight"]


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_a_weight_with_the_old_weight_norm_is_an_error():
    with pytest.raises(ValueError, match="weight"):
        gate(nn.utils.weight_norm(nn.Linear(3, 2)))


def test_choosing_changes_nothing():
    model = network()
    before = list(model.state_dict())
    Select().sites(model)
    assert list(model.state_dict()) == before


def test_a_weight_without_elements_has_no_gate():
    model = nn.ModuleList([nn.Linear(2, 3), nn.Linear(0, 3)])
    assert [site.name for site in Select().sites(model)] == ["0.weight"]


ANSWERS = {
    "sg.Select('0.*')": ("types is a tuple, got the string '0.*'; write Select(names=('0.*',))"),
    "sg.Select(skip='fc')": "skip is a tuple, got the string 'fc'; write Select(skip=('fc',))",
    "sg.gate(torch.nn.Linear(1, 1), select='0.*')": (
        "select is a Select, got '0.*'; write select=Select(names=('0.*',))"
    ),
    "sg.gate(torch.nn.Linear(1, 1), select=['0.*', '1.*'])": (
        "select is a Select, got ['0.*', '1.*']; write select=Select(names=('0.*', '1.*'))"
    ),
}
TRY_ALL = """
import sys, torch, sparsegate as sg
for words in sys.argv[1:]:
    try:
        eval(words)
    except ValueError as error:
        print(error)
"""


def test_a_string_in_place_of_a_tuple_is_answered_in_words(python):
    # In a process of its own: here, the tests' check of types comes first.
    ended = python("-c", TRY_ALL, *ANSWERS)
    assert ended.stdout.splitlines() == list(ANSWERS.values()), ended.stderr
