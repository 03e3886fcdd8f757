"""What users of pruning libraries complain about; every test shows that it cannot happen here.

1. "The file is as large as before": tests/library/files. 2. "It is not faster": `sg.sparse` keeps
what was measured to be fastest, tests/library/runtime.
"""

import copy
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.models import LeNet5
from sparsegate_lab.train import Run, train

ROOT = Path(__file__).parent.parent


def a_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def trained(model, steps=30, count=0.5, lr=3.0):
    optimizer = torch.optim.SGD(sg.weights(model), lr=0.1, momentum=0.9, weight_decay=1e-3)
    gates = sg.GateSGD(model, lr=lr, penalty=sg.Penalty(count=count))
    torch.manual_seed(1)
    inputs = torch.randn(64, 8)
    labels = (inputs[:, :2] > 0).long() @ torch.tensor([1, 2])
    for _ in range(steps):
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step(), gates.step()
        optimizer.zero_grad(), gates.zero_grad()
    return model


def kept(model):
    return sum(sg.Census(model).take().kept.values())


def test_3_lambda_is_opaque__the_price_has_a_unit_and_a_higher_price_leaves_fewer_weights():
    model = sg.gate(a_network(), start=sg.Constant(1.0))
    assert sg.Penalty(count=2.0)(model).item() == pytest.approx(
        2.0
    )  # what a fully open network adds to the loss
    counts = [kept(trained(sg.gate(a_network()), count=count)) for count in (0.0, 0.3, 1.0, 4.0)]
    assert counts == sorted(set(counts), reverse=True)


def test_4_pinned_to_an_old_torch__the_package_has_no_upper_bound():
    project = (ROOT / "packages" / "library" / "pyproject.toml").read_text()
    needs = re.findall(
        r'"([^"]+)"',
        re.search(r"^dependencies = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE).group(1),
    )
    assert "torch>=2.6" in needs
    assert [need for need in needs if re.search(r"<|~|==", need)] == ["sparsegate-runtime==0.2.0"]


def test_5_saving_and_loading_breaks__a_state_dict_brings_the_same_function_back():
    model = trained(sg.gate(a_network()))
    other = sg.gate(a_network())
    other.load_state_dict(model.state_dict())
    inputs = torch.randn(5, 8)
    assert torch.equal(model.eval()(inputs), other.eval()(inputs))


def test_6_pruned_weights_come_back__training_with_frozen_gates_revives_none():
    model = trained(sg.gate(a_network()))
    before = {name: gate.gate > 0.5 for name, gate in sg.gates(model).items()}
    trained(model, lr=0.0)  # momentum and weight decay still move every stored weight
    finished = sg.finish(model)
    for name, mask in before.items():
        assert mask.any()
        assert not mask.all()
        weight = finished.get_parameter(name)
        assert torch.equal(weight[~mask], torch.zeros_like(weight[~mask]))
        assert (weight[mask] != 0).all()


# 7. "Masks differ between ranks": tests/gates/test_several_processes.py
# 8. "It breaks under AMP or compile": tests/gates/test_autocast.py and tests/gates/test_compile.py


def test_9_the_reported_sparsity_is_wrong__it_is_the_count_of_zeros_in_the_finished_network():
    model = trained(sg.gate(a_network()))
    reported = sg.Census(model).take().kept
    assert 0 < sum(reported.values()) < 8 * 16 + 16 * 4
    finished = sg.finish(copy.deepcopy(model))
    assert reported == {
        name: int(torch.count_nonzero(finished.get_parameter(name))) for name in reported
    }


def test_10_my_model_is_not_supported__any_layer_type_can_be_named():
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.my_weight = nn.Parameter(torch.randn(4, 3))

        def forward(self, inputs):
            return inputs @ self.my_weight.T

    model = sg.gate(nn.Sequential(Mine(), nn.Linear(4, 2)), select=sg.Select(types=(Mine,)))
    assert list(sg.gates(model)) == ["0.my_weight"]
    model(torch.randn(2, 3)).sum().backward()
    assert sg.finish(model)(torch.randn(2, 3)).shape == (2, 2)


def test_a_newcomers_loop_reaches_a_sparse_and_accurate_network(digits, tmp_path):
    method = LearnedGates(
        penalty=sg.Penalty(count=4.0), gate_lr=400.0
    )  # large, because the training is short
    record = train(
        Run(model="lenet5", data=str(digits), method=method, epochs=6, batch_size=50),
        folder=tmp_path,
    )
    assert record.rate > 5
    assert record.test > 80
    assert record.total == sum(
        weight.numel() for weight in LeNet5().parameters() if weight.ndim > 1
    )
