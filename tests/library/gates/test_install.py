"""Gates go on in place, without a random number, and are found again by the names of their weights."""

import copy

import pytest
import torch
from torch import nn

from sparsegate.gates import (
    Constant,
    LargestWeights,
    Sample,
    Select,
    Threshold,
    finish,
    gate,
    gates,
    weights,
)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def tied(*, head_first: bool = False) -> nn.ModuleDict:
    layers = {"words": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)}
    model = nn.ModuleDict(dict(reversed(layers.items())) if head_first else layers)
    model["head"].weight = model["words"].weight
    return model


def predicted(model: nn.ModuleDict, words: torch.Tensor) -> torch.Tensor:
    return model["head"](model["words"](words))


def value(model: nn.Module, name: str) -> float:
    (only,) = gates(model)[name].gate.unique().tolist()
    return round(only, 6)


def test_gating_returns_the_same_model_with_gates_of_nine_tenths():
    model = network()
    assert gate(model) is model
    assert {name: value(model, name) for name in gates(model)} == {"0.weight": 0.9, "2.weight": 0.9}


@pytest.mark.parametrize("draw", [Threshold(), Sample()])
@pytest.mark.parametrize("start", [Constant(0.6), LargestWeights()])
def test_gating_consumes_no_random_number(draw, start):
    model = nn.ModuleList([network(), nn.LSTM(2, 3), nn.MultiheadAttention(4, 2), tied()])
    before = torch.random.get_rng_state()
    gate(model, draw=draw, start=start)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_gating_changes_no_weight():
    before = copy.deepcopy(network())
    model = gate(network())
    assert torch.equal(model[0].parametrizations.weight.original, before[0].weight)
    assert model(torch.ones(1, 4)).equal(before(torch.ones(1, 4)))


def test_an_ungated_model_has_no_gates():
    assert gates(network()) == {}


def test_a_layer_alone_can_be_gated():
    assert list(gates(gate(nn.Linear(2, 2)))) == ["weight"]


def test_deep_names_are_those_of_the_state_dict():
    model = nn.ModuleDict({"encoder": nn.Sequential(network(), nn.LSTM(2, 2))})
    weight_names = [name for name in model.state_dict() if "weight" in name]
    assert list(gates(gate(model))) == weight_names


def test_weights_are_all_parameters_but_the_gates_each_once():
    model = tied()
    assert len(weights(gate(model))) == 1
    model = gate(network())
    assert [tuple(each.shape) for each in weights(model)] == [(3,), (3, 4), (2,), (2, 3)]
    assert len(list(model.parameters())) == len(weights(model)) + 2


def test_gating_twice_is_an_error_that_names_the_gates():
    with pytest.raises(ValueError, match=r"already gated \(0\.weight, 2\.weight\)"):
        gate(gate(network()))


def test_a_refused_model_is_left_as_it_was():
    model = network()
    with pytest.raises(ValueError, match="no gated weight matches"):
        gate(model, start={"*": Constant(0.6), "fc*": Constant(0.7)})
    assert gates(model) == {}
    assert list(model.state_dict()) == list(network().state_dict())


def test_the_first_pattern_that_matches_gives_the_start():
    model = gate(network(), start={"2.*": Constant(0.6), "*": Constant(0.7)})
    assert (value(model, "0.weight"), value(model, "2.weight")) == (0.7, 0.6)


def test_a_start_for_a_weight_that_is_not_there_is_an_error():
    with pytest.raises(
        ValueError, match=r"start for fc\*; the gated weights are 0\.weight, 2\.weight"
    ):
        gate(network(), start={"*": Constant(0.6), "fc*": Constant(0.7)})


def test_a_weight_without_a_start_is_an_error():
    with pytest.raises(ValueError, match=r"2\.weight has no start"):
        gate(network(), start={"0.*": Constant(0.6)})


@pytest.mark.parametrize(
    "select", [Select(), Select(names=("words.*",)), Select(names=("head.*",))]
)
def test_tied_weights_share_one_gate_and_stay_tied(select):
    words, model = torch.tensor([0, 3]), gate(tied(), select=select)
    (each,) = gates(model).values()
    predicted(model, words).sum().backward()
    assert each.gate.grad.abs().min() > 0  # a row of words alone would have no gradient
    each.gate.data[0] = 0.0
    assert not model["head"].weight[0].any()
    assert not model["words"].weight[0].any()
    output = predicted(model, words)
    finish(model)
    assert model["head"].weight is model["words"].weight
    assert torch.equal(predicted(model, words), output)


@pytest.mark.parametrize("head_first", [False, True])
def test_a_start_for_the_chosen_name_counts_wherever_the_weight_is_tied(head_first):
    start = {"words.*": Constant(0.6), "*": Constant(0.7)}
    model = gate(tied(head_first=head_first), select=Select(names=("words.*",)), start=start)
    (each,) = gates(model).values()
    assert each.gate.unique().tolist() == pytest.approx([0.6])


def test_a_module_used_twice_has_one_gate():
    layer = nn.Linear(3, 3)
    model = gate(nn.Sequential(layer, nn.ReLU(), layer))
    assert list(gates(model)) == ["0.weight"]
    assert list(finish(model).state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_gate_takes_its_mode_from_the_model():
    assert gates(gate(network()))["0.weight"].training
    assert not gates(gate(network().eval()))["0.weight"].training


def test_a_gate_on_a_layer_in_eval_is_in_eval():
    model = network()
    model[0].eval()
    found = gates(gate(model, draw=Sample()))
    assert [each.training for each in found.values()] == [False, True]


def test_a_state_dict_carries_gates_into_a_freshly_gated_model():
    model, inputs = gate(network()), torch.randn(3, 4)
    for each in gates(model).values():
        nn.init.uniform_(each.gate)
    fresh = gate(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), start=Constant(0.1))
    assert fresh.load_state_dict(model.state_dict()).missing_keys == []
    assert torch.equal(fresh(inputs), model(inputs))


def test_a_copy_has_gates_of_its_own():
    model = gate(network())
    copied = copy.deepcopy(model)
    gates(copied)["0.weight"].gate.data.zero_()
    assert value(model, "0.weight") == 0.9
    assert not copied[0].weight.any()


def test_a_compiled_model_is_gated_by_the_names_of_its_weights():
    compiled = torch.compile(network(), backend="eager")
    gate(compiled, select=Select(names=("0.*",)))
    assert list(gates(compiled)) == ["0.weight"]
