"""The size of a file is known before the model is finished."""

import copy

import torch
from torch import nn

from sparsegate.files import compress
from sparsegate.gates import finish, gate, gates
from sparsegate.target.view import file_bytes, masked_state


class Tied(nn.Module):
    """Two layers with one weight, and a third with batch normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.norm, self.last = (
            nn.Linear(5, 5),
            nn.Linear(5, 5),
            nn.BatchNorm1d(5),
            nn.Linear(5, 2),
        )
        self.two.weight = self.one.weight


def gated():
    torch.manual_seed(0)
    model = gate(Tied())
    for each in gates(model).values():
        nn.init.uniform_(each.gate)
    return model, {name: each.gate.detach() > 0.5 for name, each in gates(model).items()}


def test_it_is_the_state_dict_of_the_finished_model_and_the_model_stays_gated():
    model, masks = gated()
    found, expected = masked_state(model, masks), finish(copy.deepcopy(model)).state_dict()
    assert set(found) == set(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert found["one.weight"] is found["two.weight"]
    assert list(gates(model)) == ["one.weight", "last.weight"]


def test_it_is_the_size_of_the_file(tmp_path):
    model, masks = gated()
    compress(finish(copy.deepcopy(model))).save(tmp_path / "network.sg")
    assert file_bytes(model, masks) == (tmp_path / "network.sg").stat().st_size
