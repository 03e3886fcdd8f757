"""Zeros of a sparse model stay zero in further training, whatever trains it."""

import copy
import os

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate.graph import unchecked

OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.1),
    "NAdam": lambda parameters: torch.optim.NAdam(parameters, lr=0.1),
    "LBFGS": lambda parameters: torch.optim.LBFGS(parameters, lr=0.1),
}


def sparse_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3))
    with torch.no_grad():
        model[0].weight[torch.rand(20, 6) < 0.8] = 0
    return model


def trained(model, run, optimizer, steps=5, scaler=None):
    torch.manual_seed(1)
    inputs, labels = torch.randn(32, 6), torch.arange(32) % 3

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(run(inputs), labels)
        (loss if scaler is None else scaler.scale(loss)).backward()
        return loss

    for _ in range(steps):
        if scaler is None:
            optimizer.step(closure)
        else:
            closure()
            scaler.step(optimizer)
            scaler.update()
    return model


def check(model, before):
    after = sg.finish(model).state_dict()
    assert list(after) == list(before)
    assert torch.equal(after["0.weight"] == 0, before["0.weight"] == 0)
    left = before["0.weight"] != 0
    assert (after["0.weight"][left] != before["0.weight"][left]).any()
    assert (after["2.weight"] != before["2.weight"]).any()


@pytest.mark.parametrize("kind", list(OPTIMIZERS))
def test_zeros_stay_zero_and_all_other_weights_train(kind):
    model = sparse_model()
    before = copy.deepcopy(model.state_dict())
    sg.freeze_mask(model)
    trained(model, model, OPTIMIZERS[kind](model.parameters()))
    check(model, before)


def test_an_optimizer_that_was_built_before_and_has_momentum_changes_no_zero():
    model = sparse_model()
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    trained(model, model, optimizer)
    assert (model[0].weight == 0).sum() < (before["0.weight"] == 0).sum()  # without a frozen mask
    model.load_state_dict(before)
    sg.freeze_mask(model)
    trained(model, model, optimizer)
    check(model, before)


def test_zeros_stay_zero_under_autocast_with_a_gradient_scaler():
    model = sparse_model()
    before = copy.deepcopy(model.state_dict())
    sg.freeze_mask(model)

    def run(inputs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(inputs).float()

    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    trained(model, run, OPTIMIZERS["SGD"](model.parameters()), scaler=scaler)
    check(model, before)


@pytest.mark.slow
def test_zeros_stay_zero_in_a_compiled_model():
    model = sparse_model()
    before = copy.deepcopy(model.state_dict())
    sg.freeze_mask(model)
    with unchecked():  # torch.compile cannot trace the checks of signatures
        compiled = torch.compile(model, fullgraph=True)
        trained(model, compiled, OPTIMIZERS["AdamW"](model.parameters()))
    check(model, before)


def test_zeros_stay_zero_in_ddp(tmp_path):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    try:
        model = sparse_model()
        before = copy.deepcopy(model.state_dict())
        wrapped = nn.parallel.DistributedDataParallel(sg.freeze_mask(model))
        trained(model, wrapped, OPTIMIZERS["AdamW"](wrapped.parameters()))
        check(model, before)
    finally:
        torch.distributed.destroy_process_group()


def test_the_frozen_model_computes_what_the_sparse_one_did():
    model = sparse_model()
    inputs = torch.randn(5, 6)
    wanted = model(inputs)
    assert torch.equal(sg.freeze_mask(model)(inputs), wanted)


def test_gates_that_are_there_are_frozen_where_they_are():
    model = sg.gate(sparse_model(), start=sg.LargestWeights(keep=0.3))
    masks = {name: gate.mask() for name, gate in sg.gates(model).items()}
    optimizer = sg.GateSGD(sg.freeze_mask(model), lr=100.0)
    trained(model, model, torch.optim.SGD(sg.weights(model), lr=0.1))
    optimizer.step()
    assert all(torch.equal(gate.mask(), masks[name]) for name, gate in sg.gates(model).items())


def test_only_weights_with_zeros_get_gates_and_select_chooses_among_them():
    assert list(sg.gates(sg.freeze_mask(sparse_model()))) == ["0.weight"]
    model = sparse_model()
    model[2].weight.data[0, 0] = 0
    chosen = sg.freeze_mask(model, select=sg.Select(names=("2.*",)))
    assert list(sg.gates(chosen)) == ["2.weight"]


def test_a_dense_model_is_refused():
    with pytest.raises(ValueError, match="no weight of the model has a zero; freeze a sparse"):
        sg.freeze_mask(nn.Linear(3, 2))


def test_select_is_refused_for_a_gated_model():
    with pytest.raises(ValueError, match="the model has gates already, all of which are frozen"):
        sg.freeze_mask(sg.gate(nn.Linear(3, 2)), select=sg.Select())


def test_a_model_of_gated_sgd_is_refused():
    model = sg.gate(nn.Linear(3, 2))
    sg.GatedSGD(model)
    with pytest.raises(ValueError, match="GatedSGD has taken over these gates; finish the model"):
        sg.freeze_mask(model)


# gates of a sparse model


def test_the_gates_of_a_sparse_model_start_closed_where_it_is_zero():
    model = sparse_model()
    zero = model[0].weight == 0
    (first, second) = sg.gates(sg.gate(model)).values()
    assert torch.equal(first.gate == 0, zero)
    assert (first.gate[~zero] == 0.9).all()
    assert (second.gate == 0.9).all()


def test_closed_gates_of_zeros_stay_closed_while_the_others_train():
    model = sparse_model()
    zero = model[0].weight == 0
    sg.gate(model)
    gates = sg.GateSGD(model, lr=1.0, penalty=sg.Penalty(count=0.0))
    optimizer = torch.optim.AdamW(sg.weights(model), lr=0.1)
    for _ in range(10):
        trained(model, model, optimizer, steps=1)
        gates.step()
    assert (sg.finish(model)[0].weight[zero] == 0).all()


def test_a_layer_that_is_zero_as_a_whole_starts_open():
    model = nn.Linear(3, 2)
    nn.init.zeros_(model.weight)
    assert (sg.gates(sg.gate(model))["weight"].gate == 0.9).all()


def test_another_start_may_open_the_gates_of_zeros():
    (first, _) = sg.gates(sg.gate(sparse_model(), start=sg.Constant(0.9))).values()
    assert (first.gate == 0.9).all()


@pytest.mark.parametrize("value", [0.5, 0.0, 1.1, float("nan")])
def test_the_value_of_an_open_gate_is_above_the_threshold(value):
    with pytest.raises(ValueError, match=r"value is that of an open gate, in \(0\.5, 1\]"):
        sg.Nonzero(value)
