"""Models saved as network files, against the models themselves."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate_runtime import Network

from .test_engine import CASES, Does, prepared

RUN = """
import json, sys
import numpy as np
sys.modules["torch"] = None
from sparsegate_runtime import Network
network = Network.load(sys.argv[1])
print(json.dumps(network(np.load(sys.argv[2])).tolist()))
"""


@torch.no_grad()
@pytest.mark.parametrize("name", sorted(set(CASES) - {"by torch"}))
def test_a_file_computes_what_the_model_does(name, tmp_path):
    model, shape = prepared(name)
    sg.save_network(model, torch.randn(1, *shape), tmp_path / "net.sgn", varying=["batch"])
    network = Network.load(tmp_path / "net.sgn")
    assert network.inputs[0].shape == ("batch", *shape)
    for batch in (1, 4):
        x = torch.randn(batch, *shape)
        wanted = model(x).numpy()
        slack = 1e-5 * max(1.0, float(np.abs(wanted).max()))
        assert np.allclose(network(x.numpy()), wanted, rtol=0, atol=slack)


@torch.no_grad()
def test_the_length_may_vary(tmp_path):
    table = nn.Embedding(12, 8)
    positions = nn.Parameter(torch.randn(20, 8))

    def forward(m, ids):
        x = m.table(ids) + m.positions[: ids.shape[1]]
        return m.encode(x).transpose(1, 2)

    model = Does(
        forward,
        table=table,
        positions=positions,
        encode=nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True),
    ).eval()
    saved = sg.save_network(model, torch.randint(0, 12, (1, 16)), tmp_path / "net.sgn")
    assert not saved.fixed
    assert "input   x: int64 [batch, length]" in str(saved)
    assert "output  output: float32 [batch, 8, length]" in str(saved)
    network = Network.load(tmp_path / "net.sgn")
    ids = torch.randint(0, 12, (3, 11))
    assert np.allclose(network(ids.numpy()), model(ids).numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="length must be 1 to 16, got 17"):
        network(np.zeros((1, 17), np.int64))


@torch.no_grad()
def test_a_file_runs_without_torch(tmp_path):
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2)).eval()
    x = torch.randn(3, 5)
    sg.save_network(model, x, tmp_path / "net.sgn")
    np.save(tmp_path / "x.npy", x.numpy())
    paths = [str(tmp_path / "net.sgn"), str(tmp_path / "x.npy")]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *paths], capture_output=True, text=True, check=True
    )
    assert np.allclose(json.loads(done.stdout), model(x).numpy(), atol=1e-6)


@torch.no_grad()
def test_shared_values_stay_shared_under_a_batch_norm(tmp_path):
    conv, norm = nn.Conv2d(8, 64, 3), nn.BatchNorm2d(64)
    conv.weight.copy_(torch.randint(-1, 2, conv.weight.shape) * 0.25)
    norm.weight.normal_()
    norm.running_var.uniform_(0.5, 2)
    model = nn.Sequential(conv, norm).eval()
    saved = sg.save_network(model, torch.randn(1, 8, 6, 6), tmp_path / "net.sgn")
    assert saved.num_bytes < 2 * conv.weight.numel() / 8 + 64 * 4 * 3 + 400


def test_what_the_engine_lacks_is_named(tmp_path):
    class Sorts(nn.Module):
        def forward(self, x):
            return x.sort(-1).values

    model = nn.Sequential(nn.Linear(4, 4), Sorts())
    with pytest.raises(
        ValueError, match=r"the engine cannot run aten.sort.default in 1; a network file needs"
    ):
        sg.save_network(model, torch.randn(2, 4), tmp_path / "net.sgn")
    assert not list(tmp_path.iterdir())


def test_sizes_that_cannot_vary_are_fixed_with_a_reason(tmp_path):
    model = Does(lambda m, x: m.layer(x.flatten(1)), layer=nn.Linear(24, 3))
    saved = sg.save_network(model, torch.randn(2, 4, 6), tmp_path / "net.sgn")
    assert list(saved.fixed) == ["length"]
    assert "the length is fixed: the model does not take other sizes" in str(saved)
    assert Network.load(tmp_path / "net.sgn").inputs[0].shape == ("batch", 4, 6)


def test_images_that_have_an_effect_on_others_fix_the_batch(tmp_path):
    model = Does(lambda m, x: m.layer(x) / x.shape[0] ** 2, layer=nn.Linear(6, 3))
    saved = sg.save_network(model, torch.randn(4, 6), tmp_path / "net.sgn")
    assert list(saved.fixed) == ["batch"]
    assert Network.load(tmp_path / "net.sgn").inputs[0].shape == (4, 6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda: (nn.Linear(2, 2), "x"), "expected one batch"),
        (lambda: (nn.Linear(2, 2), ()), "holds no tensor"),
        (lambda: (nn.Linear(2, 2), torch.zeros(1, 3)), "does not run on the example"),
        (
            lambda: (nn.Linear(2, 2).double(), torch.zeros(1, 2).double()),
            "computes in float32, got torch.float64",
        ),
    ],
)
def test_bad_models_and_examples_are_refused(given, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        sg.save_network(*given(), tmp_path / "net.sgn")
    assert not list(tmp_path.iterdir())


def test_varying_is_checked(tmp_path):
    with pytest.raises(ValueError, match="'batch' and 'length', got 'batch'"):
        sg.save_network(nn.Linear(2, 2), torch.zeros(1, 2), tmp_path / "net.sgn", varying="batch")


@torch.no_grad()
def test_several_inputs_and_outputs_have_names(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, left, right):
            return {"sum": self.layer(left + right), "left": left}

    model = Two()
    example = {"left": torch.randn(2, 3), "right": torch.randn(2, 3)}
    sg.save_network(model, example, tmp_path / "net.sgn")
    network = Network.load(tmp_path / "net.sgn")
    assert [one.name for one in network.inputs] == ["left", "right"]
    assert [one.name for one in network.outputs] == ["sum", "left"]
    found = network(**{name: one.numpy() for name, one in example.items()})
    wanted = model(**example)
    assert np.allclose(found[0], wanted["sum"].numpy(), atol=1e-6)
    assert np.array_equal(found[1], example["left"].numpy())


@torch.no_grad()
def test_a_mask_of_integers_or_truth_values_hides_tokens(tmp_path):
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x, mask):
            seen = mask.bool()
            hidden = self.attention(x, x, x, key_padding_mask=~seen, need_weights=False)[0]
            return (hidden * mask[:, :, None]).sum(1) / (mask > 0).float().sum(1, keepdim=True)

    x = torch.randn(3, 6, 8)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1]])
    for given in (mask, mask.bool()):
        saved = sg.save_network(Masked(), (x, given), tmp_path / "net.sgn")
        assert not saved.fixed
        wanted = Masked()(x[:, :5] + 1, given[:, 1:]).numpy()
        found = Network.load(tmp_path / "net.sgn")((x[:, :5] + 1).numpy(), given[:, 1:].numpy())
        assert np.allclose(found, wanted, atol=1e-5)


@torch.no_grad()
def test_large_integers_are_compared_exactly(tmp_path):
    class Marks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, ids):
            return self.layer(x) * (ids != 7) * (ids < 16_000_000)

    x, ids = (
        torch.ones(2, 4),
        torch.tensor([[7, 2**24 + 1, 2**40, -(2**40)], [8, 6, 16_000_000, 0]]),
    )
    model = Marks()
    sg.save_network(model, (x, ids), tmp_path / "net.sgn")
    found = Network.load(tmp_path / "net.sgn")(x.numpy(), ids.numpy())
    assert np.allclose(found, model(x, ids).numpy(), atol=1e-6)
