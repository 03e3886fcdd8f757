"""Layers are timed by the kernels that can run them, and the fastest plan is chosen."""

import pytest
import torch
from torch import nn

from sparsegate.runtime import autotune
from sparsegate.runtime.autotune import WORTH_TRYING
from sparsegate.runtime.sparsable import captured
from sparsegate_runtime.kernels import KERNELS

needs_kernels = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


def forced(model, example, kernel):
    return autotune.forced(captured(model.eval(), example), example, kernel)


def measured(model, example):
    return autotune.measured(captured(model.eval(), example), example)


@pytest.fixture
def mixed(sparsified) -> nn.Sequential:
    """A convolution with zeros, a large linear layer with hardly any weights, and a dense one."""
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 1000), nn.Linear(1000, 3)
    )
    sparsified(model[0], 0.5)
    sparsified(model[3], 0.999)
    return model


IMAGE = torch.zeros(2, 1, 16, 16)


@needs_kernels
@pytest.mark.parametrize(
    ("kernel", "want"),
    [("dense", ["dense"] * 3), ("chain", ["chain"] * 3), ("csr", ["dense", "csr", "csr"])],
)
def test_a_forced_kernel_is_used_wherever_it_can_be(mixed, kernel, want):
    choice = forced(mixed, IMAGE, kernel)
    assert [layer.kernel for layer in choice.layers] == want
    assert (choice.batch, choice.threads, choice.device) == (2, torch.get_num_threads(), "cpu")
    assert choice.dense_ms is None


def test_an_unknown_kernel_is_refused(mixed):
    with pytest.raises(
        ValueError,
        match=r"kernel is dense, packed, winograd, winograd8, chain, triton, csr or hardwired, got 'fast'",
    ):
        forced(mixed, IMAGE, "fast")


@needs_kernels
def test_small_layers_are_tried_without_zeros_too():
    choice = measured(
        nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3)), torch.zeros(1, 20)
    )
    assert all(layer.sparsity == 0 and layer.sparse_ms > 0 for layer in choice.layers)


@needs_kernels
def test_what_is_chosen_is_measured_layer_by_layer_and_as_a_whole(mixed, monkeypatch):
    monkeypatch.setattr("sparsegate.runtime.autotune.SMALL", 0)
    choice = measured(mixed, IMAGE)
    conv, sparse, dense = choice.layers
    assert sparse.dense_ms > 0
    assert sparse.sparse_ms > 0
    assert conv.sparsity == 1 - mixed[0].weight.count_nonzero() / 36
    assert dense.sparsity < WORTH_TRYING
    assert (dense.kernel, dense.sparse_ms) == ("dense", None)  # not worth trying
    assert 0 < choice.sparse_ms <= choice.dense_ms
    assert choice.note == ""


@needs_kernels
def test_a_layer_with_hardly_any_weights_runs_sparse(mixed):
    assert measured(mixed, IMAGE).kernels["3"] == "chain"  # 784 weights instead of 784 000


def test_a_dense_model_stays_dense(monkeypatch):
    monkeypatch.setattr("sparsegate.runtime.autotune.SMALL", 0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))
    choice = measured(model, torch.zeros(4, 20))
    assert set(choice.kernels.values()) == {"dense"}
    assert choice.dense_ms == choice.sparse_ms


def test_a_model_without_layers_stays_as_it_is():
    assert measured(nn.Sequential(nn.ReLU()), torch.zeros(4, 20)).layers == ()


def test_doubles_stay_dense(mixed):
    assert set(measured(mixed.double(), IMAGE.double()).kernels.values()) == {"dense"}


def test_measuring_leaves_no_hooks_behind(mixed):
    measured(mixed, IMAGE)
    assert not any(module._forward_pre_hooks for module in mixed.modules())
