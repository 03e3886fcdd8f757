"""A member of many ends as it would have alone, up to rounding."""

import dataclasses

import pytest
import safetensors.torch
import torch

from sparsegate.price import Penalty
from sparsegate_lab.batched import train_many
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.train import Run, train

GATES = LearnedGates(penalty=Penalty(count=4.0, bimodal=1.0), gate_lr=100.0, ramp=0.2)
SAMPLED = LearnedGates(
    penalty=Penalty(count=4.0), gate_lr=100.0, draw="sample", only=("conv2.*", "fc1.*")
)


def others(run: Run, **differences) -> list[Run]:
    """The run, and one that differs in everything it may."""
    return [
        run,
        dataclasses.replace(
            run, seed=5, lr=0.05, momentum=0.8, weight_decay=1e-3, shift=1, **differences
        ),
    ]


def near(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether histograms agree but for a few gates that rounding takes over an edge."""
    moved = sum(abs(a - b) for a, b in zip(one, other, strict=True))
    return moved <= 2e-4 * sum(other)


def compare(runs, tmp_path):
    many = train_many(runs, folder=tmp_path / "many")
    for found, run in zip(many, runs, strict=True):
        wanted = train(run, folder=tmp_path / "alone")
        for one, other in zip(found.epochs, wanted.epochs, strict=True):
            assert near(one.gates, other.gates)
            numbers = [vars(dataclasses.replace(epoch, gates=())) for epoch in (one, other)]
            assert numbers[0].pop("gates") == numbers[1].pop("gates") == ()
            kept = [each.pop("layers") for each in numbers]
            assert kept[0] == pytest.approx(kept[1], rel=1e-3)
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-4, abs=1e-6)
        assert found.first_gates == wanted.first_gates
        assert (found.name, found.layers, found.biases_kept) == (
            wanted.name,
            wanted.layers,
            wanted.biases_kept,
        )
        assert (found.validation, found.test) == (wanted.validation, wanted.test)
        networks = [
            safetensors.torch.load_file(tmp_path / each / run.name / "network.safetensors")
            for each in ("many", "alone")
        ]
        for name, weight in networks[1].items():
            torch.testing.assert_close(networks[0][name], weight, rtol=1e-3, atol=1e-5)


def test_gates_on_all_layers(digits, tmp_path):
    run = Run(data=str(digits), epochs=1, batch_size=300, method=GATES)
    other = LearnedGates(
        penalty=Penalty(count=1.0, per="layer"),
        gate_lr=50.0,
        gate_momentum=0.5,
        start=0.7,
        ramp=0.0,
        freeze=0.5,
    )
    compare(others(run, method=other), tmp_path)


def test_sampled_gates_on_some_layers(digits, tmp_path):
    run = Run(data=str(digits), epochs=1, batch_size=300, method=SAMPLED)
    compare(others(run, method=dataclasses.replace(SAMPLED, keep=0.5)), tmp_path)


def test_several_epochs_of_gates_that_open_and_close(small, tmp_path):
    compare(others(small(epochs=3, method=GATES)), tmp_path)


def test_dense_networks(small, tmp_path):
    compare(others(small(method=Dense())), tmp_path)


@pytest.mark.slow
def test_bf16(small, tmp_path):
    runs = others(small(precision="bf16", method=GATES))
    many = train_many(runs, folder=tmp_path / "many")
    for found, run in zip(many, runs, strict=True):
        wanted = train(run, folder=tmp_path / "alone")
        assert [epoch.loss for epoch in found.epochs] == pytest.approx(
            [each.loss for each in wanted.epochs], rel=1e-2
        )
