"""A finished model is an ordinary one that computes the same, whatever its layers are."""

import copy
import io
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from sparsegate.gates import Sample, finish, gate, gates


class LastWord(nn.Module):
    """The recurrent cell after a few words, so that its weights on the state have a gradient."""

    def __init__(self, cell: nn.LSTMCell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, words: Tensor) -> Tensor:
        state = None
        for word in words:
            state = self.cell(word, state)
        return state[0]


class Negated(nn.Module):
    """Another parametrization."""

    def forward(self, weight: Tensor) -> Tensor:
        return -weight


def sequence(*inputs: int) -> tuple[Tensor, ...]:
    return tuple(torch.randn(3, 2, size) for size in inputs)


INDICES = torch.tensor([[0, 1, 2], [3, 4, 4]])
LAYERS = {
    "linear": lambda: (nn.Linear(4, 3), sequence(4)),
    "no bias": lambda: (nn.Linear(4, 3, bias=False), sequence(4)),
    "bilinear": lambda: (nn.Bilinear(3, 4, 2), sequence(3, 4)),
    "conv1d": lambda: (nn.Conv1d(2, 3, 3), sequence(5)),
    "conv2d": lambda: (nn.Conv2d(4, 2, 3, groups=2), (torch.randn(2, 4, 5, 5),)),
    "conv3d": lambda: (nn.Conv3d(1, 2, 2), (torch.randn(2, 1, 3, 3, 3),)),
    "transposed1d": lambda: (nn.ConvTranspose1d(2, 3, 3), sequence(5)),
    "transposed2d": lambda: (nn.ConvTranspose2d(1, 2, 3), (torch.randn(2, 1, 4, 4),)),
    "transposed3d": lambda: (nn.ConvTranspose3d(1, 2, 2), (torch.randn(2, 1, 3, 3, 3),)),
    "embedding": lambda: (nn.Embedding(5, 3), (INDICES,)),
    "embedding bag": lambda: (nn.EmbeddingBag(5, 3), (INDICES,)),
    "attention": lambda: (nn.MultiheadAttention(4, 2), sequence(4, 4, 4)),
    "attention, own widths": lambda: (
        nn.MultiheadAttention(4, 2, kdim=3, vdim=5),
        sequence(4, 3, 5),
    ),
    "transformer": lambda: (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), sequence(4)),
    "rnn": lambda: (nn.RNN(4, 3, num_layers=2), sequence(4)),
    "lstm": lambda: (nn.LSTM(4, 3), sequence(4)),
    "lstm, projected": lambda: (nn.LSTM(4, 3, proj_size=2), sequence(4)),
    "lstm, both ways": lambda: (nn.LSTM(4, 3, bidirectional=True), sequence(4)),
    "gru": lambda: (nn.GRU(4, 3, batch_first=True), sequence(4)),
    "lstm cell": lambda: (LastWord(nn.LSTMCell(4, 3)), sequence(4)),
}
pytestmark = [
    # What torch says of its own recurrent layers, gated or not.
    pytest.mark.filterwarnings("ignore:.*_flat_weights.* were assigned during export:UserWarning"),
    pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning"),
]
every_layer = pytest.mark.parametrize("name", LAYERS)


def built(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(1)
    return LAYERS[name]()


def gated(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The layer with about half of its gates closed, drawn at random in training."""
    model, inputs = built(name)
    for each in gates(gate(model, draw=Sample())).values():
        nn.init.uniform_(each.gate)
    return model, inputs


def output(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    found = model(*inputs)
    return found[0] if isinstance(found, tuple) else found


@every_layer
def test_every_weight_has_a_gate_and_no_bias_or_norm(name):
    model, _ = built(name)
    wanted = [
        key for key, value in model.state_dict().items() if "weight" in key and value.ndim > 1
    ]
    assert sorted(gates(gate(model))) == sorted(wanted)


@every_layer
def test_every_gate_has_a_gradient_that_is_not_zero(name):
    model, inputs = gated(name)
    output(model, inputs).pow(
        3
    ).sum().backward()  # a norm makes plain sums and sums of squares constant
    for each in gates(model).values():
        assert each.gate.grad.isfinite().all()
        assert each.gate.grad.any()


@every_layer
@pytest.mark.parametrize("with_grad", [False, True])
def test_outputs_in_eval_equal_those_after_finish_bit_for_bit(name, with_grad):
    model, inputs = gated(name)
    with torch.set_grad_enabled(
        with_grad
    ):  # attention and transformer layers have a fast path without gradients
        before = output(model.eval(), inputs)
        assert torch.equal(output(finish(model), inputs), before)


@every_layer
def test_the_state_dict_and_the_classes_are_as_before_gating(name):
    plain, _ = built(name)
    model = finish(gated(name)[0])
    assert list(model.state_dict()) == list(plain.state_dict())
    assert [id(each) for each in model.parameters()] == [
        id(dict(model.named_parameters())[key]) for key in plain.state_dict()
    ]
    assert [type(each) for each in model.modules()] == [type(each) for each in plain.modules()]
    assert not gates(model)


@every_layer
def test_finishing_a_copy_leaves_the_original_gated_and_working(name):
    model, inputs = gated(name)
    copied = copy.deepcopy(model.eval())
    before = output(model, inputs)
    assert torch.equal(output(finish(copied), inputs), before)
    assert gates(model)
    assert torch.equal(output(model, inputs), before)
    assert torch.equal(output(finish(model), inputs), before)


@every_layer
def test_a_finished_model_trains_pickles_and_exports(name):
    model, inputs = gated(name)
    finish(model)
    output(model, inputs).pow(3).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval()
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(output(again, inputs), output(model, inputs))
    exported = torch.export.export(model, inputs)
    torch.testing.assert_close(output(exported.module(), inputs), output(model, inputs))


def test_removed_weights_are_plus_zero_and_the_others_untouched():
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data = torch.tensor([[-3.0, -5.0]])
    gates(gate(layer))["weight"].gate.data = torch.tensor([[0.5, 0.51]])
    weight = finish(layer).weight
    assert weight.tolist() == [[0.0, -5.0]]
    assert not torch.signbit(weight[0, 0])


def test_finishing_in_training_takes_the_threshold_not_a_draw():
    model = gate(nn.Linear(30, 30), draw=Sample())
    weight = model.parametrizations.weight.original.detach().clone()
    finish(model)
    assert torch.equal(model.weight, weight)  # all gates are 0.9
    assert model.training


def test_a_weight_is_the_same_parameter_before_and_after():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    assert finish(gate(layer)).weight is weight
    layer(torch.ones(1, 2)).sum().backward()
    before = weight.detach().clone()
    optimizer.step()
    assert not torch.equal(layer.weight, before)


def test_finishing_a_model_without_gates_is_an_error():
    with pytest.raises(ValueError, match=r"no gates; put them on with sparsegate\.gate"):
        finish(nn.Linear(2, 2))


def test_finishing_twice_is_an_error():
    with pytest.raises(ValueError, match="no gates"):
        finish(finish(gate(nn.Linear(2, 2))))


def test_a_finished_model_can_be_gated_again():
    model = finish(gate(nn.LSTM(2, 3)))
    assert list(gates(gate(model))) == ["weight_ih_l0", "weight_hh_l0"]


def test_a_compiled_wrapper_is_taken_off():
    layer = nn.Linear(2, 2)
    assert finish(torch.compile(gate(layer))) is layer
    assert type(layer) is nn.Linear


@pytest.mark.parametrize("first", ["gate", "bias"])
def test_a_parametrization_of_the_bias_survives(first):
    layer, inputs = nn.Linear(2, 2), torch.randn(3, 2)
    steps = {
        "gate": lambda: gate(layer),
        "bias": lambda: parametrize.register_parametrization(layer, "bias", Negated()),
    }
    steps.pop(first)()
    steps.popitem()[1]()
    before = layer(inputs)
    finish(layer)
    assert parametrize.is_parametrized(layer, "bias")
    assert not parametrize.is_parametrized(layer, "weight")
    assert torch.equal(layer(inputs), before)


def test_finishing_a_copy_with_another_parametrization_leaves_the_original_working():
    layer, inputs = gate(nn.Linear(2, 2)), torch.randn(3, 2)
    parametrize.register_parametrization(layer, "bias", Negated())
    before = layer(inputs)
    assert torch.equal(finish(copy.deepcopy(layer))(inputs), before)
    assert torch.equal(layer(inputs), before)


def test_a_parametrization_on_top_of_the_gate_is_an_error_and_nothing_is_lost():
    layer, inputs = gate(nn.Linear(2, 2)), torch.randn(3, 2)
    parametrize.register_parametrization(layer, "weight", Negated())
    before = layer(inputs)
    with pytest.raises(ValueError, match="remove that before finishing"):
        finish(layer)
    assert torch.equal(layer(inputs), before)


def test_a_finished_state_dict_loads_into_a_model_that_never_had_gates():
    model, inputs = gated("transformer")
    file = io.BytesIO()
    torch.save(finish(model.eval()).state_dict(), file)
    file.seek(0)
    plain = LAYERS["transformer"]()[0].eval()
    plain.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(plain(*inputs), model(*inputs))
