"""Sparse modules against the ordinary layers, over drawn shapes, states and batches."""

import copy
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sparsegate.runtime.modules import (
    SparseAttention,
    SparseConv,
    SparseLinear,
    SparseRecurrent,
    SparseTransposed,
    duplicated,
    sparse_form,
    swapped,
)
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")
CELLS = (nn.LSTM, nn.GRU, nn.RNN, lambda *sizes, **kw: nn.RNN(*sizes, nonlinearity="relu", **kw))


def with_zeros(module, fraction=0.7):
    """The layer with this fraction of its weights at zero."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            parameter.data[torch.rand_like(parameter) < fraction] = 0
    return module.eval().requires_grad_(False)


def exact(layer, *inputs):
    """The layer's output in float64."""
    return copy.deepcopy(layer).double()(*(x.double() for x in inputs))


def assert_close(got, wanted):
    """Equal to a hundred-thousandth of the largest output."""
    assert got.shape == wanted.shape
    if wanted.numel():
        assert float((got - wanted).abs().max()) <= 1e-5 * max(1e-3, float(wanted.abs().max()))


@given(
    st.lists(st.integers(0, 5), max_size=3), st.integers(1, 70), st.integers(1, 40), st.booleans()
)
def test_a_linear_layer_takes_any_leading_dimensions(leading, columns, rows, bias):
    layer = with_zeros(nn.Linear(columns, rows, bias=bias))
    x = torch.randn(*leading, columns)
    assert_close(SparseLinear.of(layer)(x), exact(layer, x))


@pytest.mark.parametrize("keep", [0.0, 1.0])
def test_a_linear_layer_may_keep_nothing_or_everything(keep):
    layer = with_zeros(nn.Linear(20, 30), 1 - keep)
    x = torch.randn(5, 20)
    assert_close(SparseLinear.of(layer)(x), layer(x))


@given(
    st.integers(1, 2),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from([0, 1, "same", "valid"]),
    st.sampled_from(["zeros", "reflect", "circular"]),
    st.sampled_from([1, 3, 4, 17]),
)
def test_a_convolution_of_any_kind(dims, groups, taps, dilation, stride, padding, mode, batch):
    stride = 1 if padding == "same" else stride
    kind = nn.Conv1d if dims == 1 else nn.Conv2d
    conv = kind(8, 12, taps, stride, padding, dilation, groups, padding_mode=mode)
    with_zeros(conv, 0.5)
    x = torch.randn(batch, 8, *(13, 15)[:dims])
    assert_close(SparseConv.of(conv)(x), exact(conv, x))
    assert_close(SparseConv.of(conv)(x[0]), exact(conv, x[0]))


@given(
    st.integers(1, 2),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([1, 3, 17]),
)
def test_a_transposed_convolution_of_any_kind(
    dims, groups, taps, stride, dilation, padding, more, batch
):
    kind = nn.ConvTranspose1d if dims == 1 else nn.ConvTranspose2d
    padding, more = min(padding, dilation * (taps - 1)), min(more, max(stride, dilation) - 1)
    conv = with_zeros(kind(8, 12, taps, stride, padding, more, groups, True, dilation), 0.5)
    fast, x = SparseTransposed.of(conv), torch.randn(batch, 8, *(7, 6)[:dims])
    assert_close(fast(x), exact(conv, x))
    assert_close(fast(x[0]), exact(conv, x[0]))


def test_a_transposed_convolution_gives_the_size_that_it_is_asked_for_and_loads_weights():
    conv, other = (with_zeros(nn.ConvTranspose2d(4, 6, 3, 2, bias=False)) for _ in range(2))
    fast, x = SparseTransposed.of(conv), torch.randn(2, 4, 5, 7)
    assert_close(fast(x, output_size=(12, 15)), conv(x, output_size=(12, 15)))
    with pytest.raises(ValueError, match=r"output size from \[11, 15\] to \[12, 16\]"):
        fast(x, output_size=(13, 15))
    fast.load_state_dict(other.state_dict())
    assert_close(fast(x), other(x))


@pytest.mark.parametrize("cell", CELLS, ids=["lstm", "gru", "tanh", "relu"])
@given(
    batch=st.sampled_from([1, 3, 4, 16, 17]),
    hidden=st.sampled_from([5, 16, 37]),
    steps=st.integers(1, 6),
    layers=st.integers(1, 2),
    both=st.booleans(),
    first=st.booleans(),
    bias=st.booleans(),
)
def test_a_recurrent_layer_gives_outputs_and_states(
    cell, batch, hidden, steps, layers, both, first, bias
):
    settings = {"bidirectional": both, "batch_first": first, "bias": bias}
    module = with_zeros(cell(20, hidden, layers, **settings))
    x = torch.randn(batch, steps, 20) if first else torch.randn(steps, batch, 20)
    state = torch.randn(layers * (1 + both), batch, hidden)
    begin = (state, state.flip(0)) if module.mode == "LSTM" else state
    fast = SparseRecurrent.of(module)
    for hx in (None, begin):
        (out, last), (wanted, wanted_last) = fast(x, hx), module(x, hx)
        assert_close(out, wanted)
        pairs = (
            zip(last, wanted_last, strict=True) if module.mode == "LSTM" else [(last, wanted_last)]
        )
        for one, two in pairs:
            assert_close(one, two)


def test_a_recurrent_layer_takes_one_sequence_without_a_batch_and_packed_sequences():
    module = with_zeros(nn.LSTM(6, 9))
    fast = SparseRecurrent.of(module)
    x = torch.randn(7, 6)
    assert_close(fast(x)[0], module(x)[0])
    assert_close(fast(x)[1][1], module(x)[1][1])
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(7, 2, 6), torch.tensor([7, 4]))
    assert_close(fast(packed)[0].data, module(packed)[0].data)


@pytest.mark.parametrize("first", [True, False])
def test_attention_with_masks_and_other_keys(first):
    attention = with_zeros(nn.MultiheadAttention(32, 4, batch_first=first), 0.5)
    fast = SparseAttention.of(attention)
    x, y = torch.randn(2, 5, 32), torch.randn(2, 7, 32)
    late = torch.zeros(2, 7, dtype=torch.bool)
    late[:, 5:] = True
    future = torch.ones(5, 7, dtype=torch.bool).triu(1)
    x, y = (x, y) if first else (x.transpose(0, 1), y.transpose(0, 1))
    for settings in (
        {},
        {"key_padding_mask": late},
        {"attn_mask": future, "need_weights": False},
        {"attn_mask": torch.randn(8, 5, 7), "average_attn_weights": False},
    ):
        got, wanted = fast(x, y, y, **settings), attention(x, y, y, **settings)
        assert_close(got[0], wanted[0])
        if wanted[1] is not None:
            assert_close(got[1], wanted[1])
    assert_close(fast(x, x, x)[0], attention(x, x, x)[0])


def encoder():
    """Two of torch's transformer layers, which have a fast path that reads weights."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    return with_zeros(nn.TransformerEncoder(layer, 2))


def test_a_swapped_model_runs_its_own_code_and_keeps_its_state_dict():
    model, x = encoder(), torch.randn(3, 9, 32)
    fast, report = swapped(model, (x,), {}, force=True)
    assert isinstance(fast, type(model))
    assert_close(fast(x), model(x))
    assert {change.kernel for change in report} == {"sparse"}
    state, wanted = fast.state_dict(), model.state_dict()
    assert state.keys() == wanted.keys()
    assert all(torch.equal(state[name], wanted[name]) for name in wanted)
    other = encoder()
    fast.load_state_dict(other.state_dict())
    assert_close(fast(x), other(x))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda fast: pickle.loads(pickle.dumps(fast))])
def test_a_swapped_model_is_copied_and_pickled(copied):
    model = nn.Sequential(with_zeros(nn.Linear(8, 9)), with_zeros(nn.LayerNorm(9)))
    x = torch.randn(4, 8)
    fast, _ = swapped(model, (x,), {}, force=True)
    wanted = fast(x)
    assert torch.equal(copied(fast)(x), wanted)
    assert_close(wanted, model.eval()(x))


LAYERS = {
    "linear": (nn.Linear(8, 9), (2, 4, 8)),
    "conv1d": (nn.Conv1d(8, 6, 3, padding="same", dilation=2), (2, 8, 11)),
    "conv2d": (nn.Conv2d(8, 6, 3, 2, 1, groups=2, padding_mode="reflect"), (2, 8, 9, 7)),
    "transposed": (nn.ConvTranspose2d(8, 6, 4, 2, 1), (2, 8, 5, 6)),
    "lstm": (nn.LSTM(8, 5, 2, batch_first=True, bidirectional=True), (2, 4, 8)),
    "gru": (nn.GRU(8, 5), (4, 2, 8)),
    "attention": (encoder(), (2, 5, 32)),
}


class Named(nn.Module):
    """A layer within a model; of a recurrent one, the outputs."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        out = self.layer(x)
        return torch.tanh(out[0] if isinstance(out, tuple) else out)


@pytest.mark.parametrize("name", LAYERS)
def test_a_swapped_model_is_exported(name):
    layer, shape = LAYERS[name]
    model, x = Named(with_zeros(copy.deepcopy(layer))), torch.randn(shape)
    fast, _ = swapped(model, (x,), {}, force=True)
    exported = torch.export.export(fast, (x,), strict=False)
    assert "sparsegate." in str(exported.graph)
    assert_close(exported.module()(x), model(x))


@pytest.mark.slow
def test_swapped_models_are_compiled_without_graph_breaks(python):
    done = python(str(Path(__file__).parents[3] / "scripts" / "compile_modules.py"))
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", LAYERS)
def test_copies_of_every_layer_compute_the_same(name):
    layer, shape = LAYERS[name]
    model, x = Named(with_zeros(copy.deepcopy(layer))), torch.randn(shape)
    fast, _ = swapped(model, (x,), {}, force=True)
    for made in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert torch.equal(made(x), fast(x))
        assert made.state_dict().keys() == model.state_dict().keys()


def test_a_weight_costs_nothing_until_its_values_are_read():
    layer = with_zeros(nn.Linear(8, 9))
    fast = SparseLinear.of(layer)
    weight = fast.weight
    assert (weight.shape, weight.dtype, weight.device) == (
        layer.weight.shape,
        torch.float32,
        torch.device("cpu"),
    )
    assert type(weight).__name__ == "Deferred"
    assert torch.equal(weight, layer.weight)
    assert torch.equal(weight[2:4].T, layer.weight[2:4].T)
    assert weight.tolist() == layer.weight.tolist()
    assert (weight.numpy() == layer.weight.numpy()).all()
    assert torch.equal(copy.deepcopy(weight), layer.weight)
    assert torch.equal(pickle.loads(pickle.dumps(weight)), layer.weight)


def test_weights_that_are_computed_become_ordinary_ones():
    layer = nn.utils.parametrizations.weight_norm(with_zeros(nn.Conv1d(4, 6, 3)), dim=2)
    model, x = nn.Sequential(layer, nn.ReLU()).eval(), torch.randn(2, 4, 9)
    wanted = model(x)
    fast, report = swapped(model, (x,), {}, force=True)
    assert [change.kernel for change in report] == ["sparse"]
    assert "0.weight" in fast.state_dict()
    assert_close(fast(x), wanted)
    assert torch.equal(model(x), wanted)


def test_classes_made_of_layers_count_if_they_compute_the_same():
    class Renamed(nn.Linear):
        pass

    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    assert callable(sparse_form(Renamed(2, 2)))
    assert sparse_form(Scaled(2, 2)) == "Scaled has no sparse form"


def test_hooks_run_on_the_sparse_layer():
    model, x, seen = nn.Sequential(with_zeros(nn.Linear(8, 9))), torch.randn(4, 8), []
    model[0].register_forward_hook(lambda *_: seen.append("after"))
    model[0].register_forward_pre_hook(lambda *_: seen.append("before"))
    fast, _ = swapped(model, (x,), {}, force=True)
    seen.clear()
    fast(x)
    assert (type(fast[0]), seen) == (SparseLinear, ["before", "after"])


def test_a_decoder_projects_queries_and_keys_once():
    layer = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)
    model = with_zeros(nn.TransformerDecoder(layer, 2))
    x, memory = torch.randn(3, 5, 32), torch.randn(3, 9, 32)
    fast, _ = swapped(model, (x, memory), {}, force=True)
    assert_close(fast(x, memory), model(x, memory))
    other = with_zeros(nn.TransformerDecoder(layer, 2), 0.5)
    fast.load_state_dict(other.state_dict())
    assert_close(fast(x, memory), other(x, memory))


def test_autocast_leaves_sparse_layers_in_float32():
    model, x = encoder(), torch.randn(3, 9, 32)
    fast, _ = swapped(model, (x,), {}, force=True)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        got = fast(x).float()
    assert float((got - model(x)).abs().max()) <= 0.05 * float(model(x).abs().max())


def test_lines_of_many_lengths_keep_only_some_of_their_forms():
    from sparsegate.runtime.modules.kept import _PACKED, MOST_SHAPES

    conv = with_zeros(nn.Conv1d(4, 6, 3))
    fast = SparseConv.of(conv)
    for length in range(5, 5 + 2 * MOST_SHAPES):
        x = torch.randn(1, 4, length)
        assert_close(fast(x), conv(x))
    assert len(_PACKED[fast.weight_value.data_ptr()]) <= MOST_SHAPES


def test_a_model_that_refuses_to_be_copied_is_copied_module_by_module():
    class Refuses(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = with_zeros(nn.Linear(8, 9))
            self.same = [self.layer]

        def __deepcopy__(self, memo):
            raise TypeError("not this one")

        def forward(self, x):
            return self.same[0](x) + self.layer(x)

    model, x = Refuses(), torch.randn(2, 8)
    made = duplicated(model)
    assert made.layer is not model.layer
    assert made.same[0] is made.layer
    assert made.layer.weight is model.layer.weight
    fast, _ = swapped(model, (x,), {}, force=True)
    assert isinstance(fast.layer, SparseLinear)
    assert isinstance(model.layer, nn.Linear)
    assert_close(fast(x), model(x))


def test_what_has_no_sparse_form_stays_and_says_why():
    model = nn.ModuleDict(
        {
            "pairs": nn.Bilinear(3, 3, 3),
            "narrow": nn.LSTM(4, 6, proj_size=2),
            "spoiled": nn.Linear(3, 3),
            "unused": with_zeros(nn.Linear(3, 3), 1.0),
        }
    )
    model["spoiled"].weight.data[0, 0] = float("nan")
    made, report = swapped_without_example(model)
    reasons = {change.name: change.reason for change in report}
    assert "no sparse form" in reasons["pairs"]
    assert "projections" in reasons["narrow"]
    assert "NaN" in reasons["spoiled"]
    assert "does not reach" in reasons["unused"]
    assert type(made["pairs"]) is nn.Bilinear


def swapped_without_example(model):
    """Swaps a model of which the example reaches no layer."""

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            return x

    made, report = swapped(Holder(), (torch.zeros(1),), {})
    for change in report:
        object.__setattr__(change, "name", change.name.removeprefix("parts."))
    return made.parts, report


def test_a_gradient_and_another_type_are_refused():
    fast = SparseLinear.of(with_zeros(nn.Linear(4, 4)))
    with pytest.raises(RuntimeError, match="inference only"):
        fast(torch.randn(2, 4, requires_grad=True))
    with pytest.raises(ValueError, match="expected float32 inputs on the CPU with 4 features"):
        fast(torch.randn(2, 5))
    with pytest.raises(ValueError, match="expected float32 inputs"):
        fast(torch.randn(2, 4).double())
    with pytest.raises(RuntimeError, match="inference only"):
        fast.train()
    with pytest.raises(RuntimeError, match="computes in float32"):
        fast.half()


def test_no_sequence_changes_another_of_its_batch():
    fast = SparseRecurrent.of(with_zeros(nn.LSTM(8, 20)))
    x = torch.randn(5, 17, 8)
    wanted, spoiled = fast(x)[0], x.clone()
    for bad in (float("nan"), float("inf"), 1e38):
        spoiled[:, 3] = bad
        got = fast(spoiled)[0]
        others = [index for index in range(17) if index != 3]
        assert torch.equal(got[:, others], wanted[:, others])


def test_every_layer_says_whether_it_has_a_sparse_form():
    assert callable(sparse_form(nn.Linear(2, 2)))
    assert "proj" in str(sparse_form(nn.LSTM(4, 6, proj_size=2)))
    assert "added keys" in str(sparse_form(nn.MultiheadAttention(4, 2, add_bias_kv=True)))
