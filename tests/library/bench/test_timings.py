"""Engines timed side by side."""

import pytest
import torch
from torch import nn

from sparsegate.bench import ENGINES, Given, timings

EAGER = ("torch eager",)
SHAPE = (1, 8, 8)


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def test_every_number_of_threads_meets_every_batch():
    found = list(
        timings(network(), SHAPE, batches=(1, 3), threads=(1, 2), engines=EAGER, seconds=0.01)
    )
    assert [(timing.threads, timing.batch) for timing, _, _ in found] == [
        (1, 1),
        (1, 3),
        (2, 1),
        (2, 3),
    ]
    assert [(choice.threads, choice.batch) for _, choice, _ in found] == [
        (1, 1),
        (1, 3),
        (2, 1),
        (2, 3),
    ]
    assert all(
        timing.milliseconds.keys() == {"torch eager", "sparsegate"} for timing, _, _ in found
    )
    assert all(timing.differences["sparsegate"] < 1e-5 for timing, _, _ in found)


def test_torchs_threads_are_as_before_between_the_steps():
    before = torch.get_num_threads()
    for _ in timings(
        network(), SHAPE, batches=(1,), threads=(before + 1,), engines=EAGER, seconds=0.01
    ):
        assert torch.get_num_threads() == before


def test_an_engine_that_fails_is_noted_and_the_others_are_timed(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    missing = tmp_path / "missing"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))  # else torch makes it
    monkeypatch.setattr("tempfile.tempdir", str(missing))  # no place for its file
    ((timing, _, notes),) = timings(
        network(), SHAPE, batches=(1,), threads=(1,), engines=(*EAGER, "onnxruntime"), seconds=0.01
    )
    assert timing.milliseconds.keys() == {"torch eager", "sparsegate"}
    assert len(notes) == 1
    assert notes[0].startswith("onnxruntime failed: FileNotFoundError")


def test_the_median_lies_between_its_quartiles():
    ((timing, _, _),) = timings(
        network(), SHAPE, batches=(1,), threads=(1,), engines=EAGER, seconds=0.01
    )
    assert timing.quartiles.keys() == timing.milliseconds.keys()
    for name, (low, high) in timing.quartiles.items():
        assert low <= timing.milliseconds[name] <= high


def test_a_network_with_norms_is_exported_as_it_is_in_eval():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
    model[1].running_mean.normal_()
    given = Given({"input": torch.randn(2, 3, 8, 8)})
    engines = [name for name in ("torch eager", "onnxruntime") if ENGINES[name].available()]
    for timing, _, _ in timings(
        model, given, batches=(1,), threads=(1,), engines=engines, seconds=0.01
    ):
        assert max(timing.differences.values()) < 1e-4
    assert not model.training
