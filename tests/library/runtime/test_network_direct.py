"""The short way from a network into C gives what the long one gives, and is left where more is to be done."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.fast_call import EXCHANGE, MAKE
from sparsegate.runtime import Chain, ChainLayer
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")
EXAMPLE = torch.zeros(1, 1, 8, 8)


@pytest.fixture
def model(sparsified) -> nn.Sequential:
    """A model that one call in C runs."""
    torch.manual_seed(0)
    layers = (
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 30),
        nn.ReLU(),
    )
    return sparsified(nn.Sequential(*layers, nn.Linear(30, 3)))


@pytest.fixture
def fast(model) -> nn.Module:
    return sg.sparse(model, EXAMPLE, kernel="chain")


def images(batch=5):
    return torch.randn(batch, 1, 8, 8, generator=torch.Generator().manual_seed(2))


@torch.no_grad()
@pytest.mark.parametrize("kernel", ["chain", "hardwired"])
def test_it_gives_what_the_long_way_gives(model, kernel):
    fast = sg.sparse(model, EXAMPLE, kernel=kernel)
    for batch in (1, 3, 5, 16, 20):
        x = images(batch)
        long = nn.Module.__call__(fast, x)
        assert isinstance(fast._direct[x.shape], partial) == (MAKE is None or EXCHANGE is None)
        assert torch.equal(fast(x), long)


@torch.no_grad()
def test_where_it_was_not_built_the_plan_is_called(model, monkeypatch):
    monkeypatch.setattr("sparsegate.fast_call.MAKE", None)
    fast = sg.sparse(model, EXAMPLE, kernel="chain")
    for _ in range(2):
        torch.testing.assert_close(fast(images()), model(images()))
    assert isinstance(fast._direct[images().shape], partial)


@torch.no_grad()
def test_parts_that_are_not_flat_keep_their_shape(sparsified):
    conv = sparsified(nn.Conv2d(1, 4, 3))
    fast = sg.sparse(conv, EXAMPLE, kernel="chain")
    for _ in range(2):
        torch.testing.assert_close(fast(images()), conv(images()))


@torch.no_grad()
def test_hooks_are_called_once_they_are_there(fast):
    heard = []
    fast(images())
    hook = fast.register_forward_hook(lambda *_: heard.append(1))
    fast(images())
    hook.remove()
    fast(images())
    assert heard == [1]


@torch.no_grad()
def test_loaded_weights_are_known(fast, model, sparsified):
    other = sparsified(copy.deepcopy(model), seed=3)
    fast(images())
    fast.load_state_dict(other.state_dict())
    for _ in range(2):
        torch.testing.assert_close(fast(images()), other(images()))


def test_backward_is_refused_after_calls_without_gradients_too(fast):
    with torch.no_grad():
        fast(images())
    with pytest.raises(RuntimeError, match="inference only"):
        fast(images()).sum().backward()


@torch.no_grad()
def test_inputs_of_another_kind_are_refused_after_those_of_the_right_one(fast):
    fast(images())
    with pytest.raises(ValueError, match="made for float32 inputs"):
        fast(images().double())


@torch.no_grad()
def test_calls_by_name_are_the_same(fast):
    assert torch.equal(fast(x=images()), fast(images()))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 5, 40])
def test_a_chain_that_brings_its_own_memory_gives_the_same(monkeypatch, count, threads):
    monkeypatch.setattr("sparsegate.runtime.chain.WORTH_A_THREAD", 1)
    torch.manual_seed(0)
    weight = torch.randn(30, 1, 3, 3) * (torch.rand(30, 1, 3, 3) < 0.4)
    chain = Chain(
        [ChainLayer(weight, None, (1, 9, 9), padding=(1, 1), pool=2, pool_stride=2, relu=True)]
    )
    x, out = torch.randn(count, 1, 9, 9), torch.empty(count, 480)
    (_, context), kept = chain.in_c(count)
    assert KERNELS.sg_chain_direct(context, x.data_ptr(), out.data_ptr(), count, threads) == 0
    assert torch.equal(out, chain(x))
    assert kept


def test_chains_that_need_much_memory_do_not_allocate_it_at_every_call(monkeypatch):
    chain = Chain([ChainLayer(torch.ones(3, 5), None, (5, 1, 1))])
    assert chain.in_c(1) is not None
    monkeypatch.setattr("sparsegate.runtime.chain.SMALL", 10)
    assert chain.in_c(1) is None


ANY_LAYOUT = [torch.contiguous_format, torch.channels_last]


@torch.no_grad()
@pytest.mark.parametrize("layout", ANY_LAYOUT, ids=["contiguous", "channels last"])
@pytest.mark.parametrize(
    "kernel",
    ["chain", "packed", "winograd", "winograd8", pytest.param("hardwired", marks=pytest.mark.slow)],
)
def test_every_kernel_reads_an_input_with_the_negative_bit(sparsified, kernel, layout):
    conv = sparsified(nn.Sequential(nn.Conv2d(16, 16, 3), nn.ReLU()), sparsity=0.5)
    x = images(5).expand(5, 16, 8, 8).contiguous(memory_format=layout)
    fast = sg.sparse(conv, x, kernel=kernel)
    for _ in range(2):  # the second call takes the direct way into C
        torch.testing.assert_close(fast(torch._neg_view(x)), conv(-x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("kernel", ["chain", "hardwired"])
def test_an_input_whose_storage_was_freed_is_refused(model, kernel):
    fast = sg.sparse(model, EXAMPLE, kernel=kernel)
    x = images()
    fast(x)
    x.untyped_storage().resize_(0)
    for _ in range(2):
        with pytest.raises(ValueError, match="storage was freed"):
            fast(x)
