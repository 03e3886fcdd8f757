"""AC/DC: sparse and dense phases take turns."""

import pytest
import torch
from torch import nn

from sparsegate_lab.methods import Alternating

METHOD = Alternating(keep=0.1, begin=0.2, last=0.6, cycles=2)  # phases of 0.1


@pytest.mark.parametrize(
    ("progress", "sparse"),
    [(0.0, 0), (0.15, 0), (0.25, 1), (0.35, 0), (0.45, 1), (0.55, 0), (0.65, 1), (0.99, 1)],
)
def test_phases_alternate_between_begin_and_last(progress, sparse):
    assert METHOD.is_sparse(progress) == bool(sparse)


def test_without_cycles_it_is_a_single_cut():
    method = Alternating(cycles=0)
    assert [method.is_sparse(progress) for progress in (0.1, 0.5, 0.74, 0.75)] == [False] * 3 + [
        True
    ]


def stepped(model, optimizer, progress):
    METHOD.before_step(model, [optimizer], progress)
    optimizer.zero_grad()
    model(torch.ones(3, 10)).square().sum().backward()
    optimizer.step()
    METHOD.after_step(model, progress)
    return int(model[0].weight.count_nonzero())


def test_removed_weights_learn_again_in_a_dense_phase_and_start_at_rest():
    torch.manual_seed(0)
    model = METHOD.prepare(nn.Sequential(nn.Linear(10, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    assert stepped(model, optimizer, 0.1) == 100
    assert stepped(model, optimizer, 0.25) == 10
    removed = model[0].weight == 0
    velocity = optimizer.state[model[0].weight]["momentum_buffer"]
    assert velocity[removed].count_nonzero() == 90
    METHOD.before_step(model, [optimizer], 0.35)
    assert velocity[removed].count_nonzero() == 0
    assert velocity[~removed].count_nonzero() == 10
    assert stepped(model, optimizer, 0.36) == 100
    assert stepped(model, optimizer, 0.7) == 10
    assert METHOD.freezes_at == 0.6


@pytest.mark.parametrize(
    "settings", [{"begin": 0.0}, {"last": 1.0}, {"begin": 0.8}, {"cycles": -1}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        Alternating(**settings)
