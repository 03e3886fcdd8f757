"""The table and the timeline of a planned model."""

import copy
import json
import pickle

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.runtime.planned import Cost, Planned
from sparsegate.runtime.report import gain_of_more_zeros
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


class Residual(nn.Module):
    """A branch around a layer, so that the engine runs it."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(32, 32), nn.Linear(32, 8)
        for layer in (self.inner, self.out):
            layer.weight.data *= torch.rand_like(layer.weight) < 0.25

    def forward(self, x):
        return self.out(x + torch.relu(self.inner(x)))


@pytest.fixture(scope="module")
def fast():
    torch.manual_seed(0)
    return sg.sparse(Residual().eval().requires_grad_(False), torch.randn(40, 32))


def test_work_counts_two_operations_for_each_kept_weight_and_position():
    model = Residual().eval().requires_grad_(False)
    planned = Planned.of(model, torch.randn(40, 32))
    work = {cost.name: cost.work for cost in planned.costs([torch.randn(40, 32)])}
    for name, layer in (("inner", model.inner), ("out", model.out)):
        assert work[name] == 2 * 40 * int(layer.weight.count_nonzero())


def test_half_of_the_weights_save_half_of_the_multiplications_and_nothing_else():
    costs = [Cost("a", 4.0, 1e9, True), Cost("b", 0.5, 1e9, True), Cost("attention", 9.0, 1e9)]
    assert gain_of_more_zeros(costs, 1e12) == pytest.approx(0.5 * 1 + 0.5 * 0.5)


def test_print_shows_rates_totals_gains_and_memory(fast):
    text = str(fast)
    for part in ("GFLOP/s", "of peak", "whole network", "with half of the kept weights", "MiB"):
        assert part in text


def test_the_timeline_has_every_step_one_after_the_other(fast, tmp_path):
    fast.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"inner", "out"} <= {event["name"] for event in events}
    begins = [event["ts"] for event in events]
    assert begins == sorted(begins)
    assert all(event["ph"] == "X" and event["dur"] > 0 for event in events)


def test_copies_have_a_timeline_too(fast, tmp_path):
    for number, made in enumerate((copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)))):
        made.trace(tmp_path / f"{number}.json", torch.randn(3, 32))
        assert json.loads((tmp_path / f"{number}.json").read_text())["traceEvents"]


def test_inputs_that_the_engine_cannot_take_have_no_timeline(fast, tmp_path):
    with pytest.raises(ValueError, match="expected inputs that the engine has planned"):
        fast.trace(tmp_path / "none.json", torch.randn(3, 32).double())


def test_planning_reports_its_progress():
    heard = []
    model = Residual().eval().requires_grad_(False)
    sg.sparse(model, torch.randn(8, 32), progress=heard.append)
    assert heard[:2] == ["capturing the model's operations", "planning the whole batch"]
