"""`sg.sparse` on models of all kinds: it never refuses one that works."""

import copy

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.runtime.modules import SparseLinear
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


def with_zeros(module, fraction=0.9):
    """The module with this fraction of its weights at zero."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            parameter.data[torch.rand_like(parameter) < fraction] = 0
    return module.eval().requires_grad_(False)


def assert_close(got, wanted):
    """Equal to a ten-thousandth of the largest output."""
    assert got.shape == wanted.shape
    assert float((got - wanted).abs().max()) <= 1e-4 * float(wanted.abs().max())


class TwoInputsAndOutputs(nn.Module):
    """Takes two tensors, one by keyword, and gives a dict; its code depends on values."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(256, 256), nn.Linear(256, 256)

    def forward(self, x, other=None):
        if float(x.sum()) > 1e30:
            x = x * 0
        return {"sum": self.left(x) + self.right(other), "shape": tuple(x.shape)}


@pytest.mark.parametrize("kind", ["tuple", "dict"])
def test_a_model_with_several_inputs_gives_what_it_gave(kind):
    model = with_zeros(TwoInputsAndOutputs())
    x, y = torch.randn(2, 5, 256), torch.randn(2, 5, 256)
    fast = sg.sparse(model, (x, y) if kind == "tuple" else {"x": x, "other": y}, kernel="chain")
    got, wanted = fast(x, other=y), model(x, y)
    assert_close(got["sum"], wanted["sum"])
    assert got["shape"] == wanted["shape"]
    assert isinstance(fast.left, SparseLinear)
    assert not isinstance(model.left, SparseLinear)


@pytest.mark.parametrize("kernel", ["dense", "chain"])
def test_the_model_itself_stays_as_it_was(kernel):
    model = with_zeros(TwoInputsAndOutputs()).requires_grad_()
    model.train().left.eval()
    fast = sg.sparse(model, (torch.randn(2, 256), torch.randn(2, 256)), kernel=kernel)
    assert [module.training for module in model.modules()] == [True, False, True]
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not fast.training


def encoder():
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["encoder", "tagger"])
def test_a_transformer_and_a_recurrent_network(kind):
    model = with_zeros(encoder() if kind == "encoder" else Tagger())
    fast = sg.sparse(model, torch.randn(2, 12, 64))
    for batch in (1, 3, 16, 17):
        x = torch.randn(batch, 12, 64)
        assert_close(fast(x), model(x))


class Tagger(nn.Module):
    """A recurrent network with an output for each step."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTM(64, 48, 2, batch_first=True), nn.Linear(48, 7)

    def forward(self, x):
        return self.out(self.cell(x)[0])


def test_print_names_every_layer_and_why_it_was_left():
    model = nn.ModuleDict({"wide": with_zeros(nn.Linear(512, 512)), "full": nn.Linear(512, 4)})

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts, self.pairs = model, nn.Bilinear(4, 4, 2)

        def forward(self, x, scale):
            y = self.parts["full"](self.parts["wide"](x)) * scale
            return self.pairs(y, y)

    fast = sg.sparse(Model().eval(), (torch.randn(64, 512), 2.0))
    text = str(fast)
    for line in ("parts.wide", "parts.full", "pairs", "less than 30% zeros", "has no sparse form"):
        assert line in text
    assert str(copy.deepcopy(fast)) == text


def test_a_model_that_cannot_run_gates_and_other_examples_are_refused():
    model = nn.Linear(4, 4)
    with pytest.raises(ValueError, match="Sequential does not run on the example"):
        sg.sparse(nn.Sequential(model, nn.Bilinear(4, 4, 4)), torch.zeros(2, 4))
    with pytest.raises(ValueError, match="still has gates"):
        sg.sparse(sg.gate(nn.Linear(4, 4)), (torch.zeros(2, 4),))
    with pytest.raises(ValueError, match="a tensor, a tuple of arguments or a dict"):
        sg.sparse(nn.Linear(4, 4), "example")
    with pytest.raises(ValueError, match="need a model that takes one tensor"):
        sg.sparse(nn.Linear(4, 4), (torch.zeros(2, 4),), batches=[1])


def test_a_transformer_of_the_transformers_library_generates_the_same():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    model = with_zeros(transformers.GPT2LMHeadModel(config), 0.5)
    ids = torch.randint(1, 90, (2, 7))
    fast = sg.sparse(model, {"input_ids": ids}, kernel="chain")
    assert "Conv1D" in str(fast)
    assert_close(fast(input_ids=ids).logits, model(input_ids=ids).logits)
    settings = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(fast.generate(ids, **settings), model.generate(ids, **settings))
