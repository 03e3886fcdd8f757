"""Every registered method keeps the contract: joining the registry enrols it here."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.utils import parametrize

from sparsegate_lab.layers import StandIn
from sparsegate_lab.methods import METHODS
from sparsegate_lab.models import MODELS
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, RunFolder, Watcher, empty_network, train

SCRIPT = Path(__file__).parents[1] / "scripts" / "train_methods.py"
NOISY = {"sparse_vd"}  # processes draw noise of their own, so two of them draw other noise than one
every_method = pytest.mark.parametrize("name", list(METHODS))


class UnpluggedError(Exception):
    pass


class PullsThePlug(Watcher):
    """Stops a run in the middle of its third epoch, when methods that cut have begun to."""

    def stepped(self, step):
        if step == 65:
            raise UnpluggedError


def a_run(name, digits, **changes):
    return Run(
        model="lenet300",
        data=str(digits),
        method=METHODS[name](),
        epochs=4,
        batch_size=30,
        **changes,
    )


def network(run, folder):
    return load_file(RunFolder(folder / run.name, run).network)


def shapes(model):
    return [(name, value.shape) for name, value in model.state_dict().items()]


@every_method
def test_a_method_is_a_frozen_description_in_plain_values(name):
    method = METHODS[name]()
    assert method.__dataclass_params__.frozen
    assert json.loads(json.dumps(dataclasses.asdict(method))) is not None
    run = Run(method=method)
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize("keep", [0.0, -1.0, 1.5])
@pytest.mark.parametrize(
    "name", [name for name, kind in METHODS.items() if "keep" in kind.__dataclass_fields__]
)
def test_a_keep_that_is_no_fraction_is_refused(name, keep):
    with pytest.raises(ValueError, match="keep is a fraction"):
        METHODS[name](keep=keep)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "dense"])
def test_a_model_that_it_cannot_serve_is_refused_before_training(name):
    with pytest.raises(ValueError, match=r"no layer of the types|no plain fully connected layer"):
        METHODS[name]().prepare(torch.nn.Sequential(torch.nn.ReLU()))


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    """Trains every method once: the run's folder and record by the method's name."""
    folder = tmp_path_factory.mktemp("trained")
    return lambda name: (
        folder,
        train(a_run(name, digits), folder=folder),
    )  # a run that has ended is not trained again


@every_method
def test_it_trains(name, trained):
    _, record = trained(name)
    assert record.epochs[-1].loss < record.epochs[0].loss
    assert record.test > 50  # ten classes


@every_method
def test_it_resumes_to_the_bit_identical_network(name, digits, trained, tmp_path):
    run = a_run(name, digits)
    with pytest.raises(UnpluggedError):
        train(run, folder=tmp_path, watch=PullsThePlug())
    train(run, folder=tmp_path)
    whole, broken = network(run, trained(name)[0]), network(run, tmp_path)
    assert all(torch.equal(whole[key], broken[key]) for key in whole)


@every_method
def test_it_finishes_to_an_ordinary_exportable_model(name, digits, trained):
    run, (folder, record) = a_run(name, digits), trained(name)
    model = empty_network(run)
    model.load_state_dict(network(run, folder), strict=True)
    assert not any(parametrize.is_parametrized(module) for module in model.modules())
    exported = torch.export.export(model.eval(), (torch.zeros(2, 1, 28, 28),))
    assert exported.module()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    untouched = not any(isinstance(module, StandIn) for module in model.modules())
    assert (shapes(model) == shapes(MODELS[run.model]())) == untouched
    assert record.total == 266_200


@every_method
def test_it_counts_its_parameters_honestly(name, digits, trained):
    run, (folder, record) = a_run(name, digits), trained(name)
    model = empty_network(run)
    stand_ins = {path for path, module in model.named_modules() if isinstance(module, StandIn)}
    values = {
        key: value for key, value in network(run, folder).items() if value.is_floating_point()
    }
    assert {layer.name: layer.kept for layer in record.layers} == {
        f"{path}.weight": sum(
            value.numel() if path in stand_ins else int((value != 0).sum())
            for key, value in values.items()
            if key.startswith(f"{path}.") and not key.endswith(".bias")
        )
        for path in ("fc1", "fc2", "fc3")
    }
    assert record.biases_kept == sum(
        int((value != 0).sum()) for key, value in values.items() if key.endswith(".bias")
    )
    assert record.epochs[-1].kept == record.kept


@pytest.fixture(scope="module")
def by_two(digits, tmp_path_factory):
    """Trains every method with two processes, in one launch: the folder and the errors."""
    folder = tmp_path_factory.mktemp("by_two")
    # --multi_gpu: with --cpu accelerate starts one process only. Without GPUs they use gloo.
    launch = [
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes=2",
        "--num_machines=1",
    ]
    launch += ["--mixed_precision=no", "--dynamo_backend=no", str(SCRIPT), str(digits), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, *launch], env=environment, capture_output=True, text=True, timeout=600
    )
    return folder, ended.stderr


@pytest.mark.slow
@every_method
def test_it_works_under_two_processes(name, by_two, trained):
    folder, complaints = by_two
    assert (folder / name).exists(), complaints
    record = Record.load(next((folder / name).glob("*/record.json")))
    assert record.machine["processes"] == 2
    _, alone = trained(name)
    assert record.epochs[0].loss == pytest.approx(
        alone.epochs[0].loss, rel=0.03 if name in NOISY else 1e-3
    )
    assert record.kept == pytest.approx(alone.kept, rel=0.05 if name in NOISY else 0.02)
