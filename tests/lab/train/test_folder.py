"""A run's folder is held by one process, and says that the run has ended only when it has."""

import dataclasses
import json

import pytest
import torch
from safetensors import safe_open
from torch import nn

from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, RunFolder
from sparsegate_lab.train.weights import content_hash

RUN = Run(epochs=3)
RECORD = Record("toy", {}, "", {}, {}, (), 0, 0, 0.0, 0.0, (), 0.0)


@pytest.fixture
def place(tmp_path):
    return RunFolder(tmp_path / "some" / "run", RUN)


def test_a_new_folder_has_no_record(place):
    assert place.record() is None
    assert not place.path.exists()


def test_an_opened_folder_holds_the_settings_of_its_run(place):
    with place.opened():
        assert json.loads((place.path / "run.json").read_text()) == json.loads(
            json.dumps(RUN.to_json())
        )


def test_a_second_process_is_refused_while_the_first_trains(place):
    # flock is held per open file, so a second opening in one process is refused as one in another is
    refused = pytest.raises(
        ValueError, match=r"another process is training in .*; wait for it or stop it"
    )
    with place.opened(), refused, place.opened():
        pass


@pytest.mark.parametrize("end", [None, RuntimeError])
def test_a_folder_can_be_opened_again_after_its_process_ended_or_failed(place, end):
    try:
        with place.opened():
            if end is not None:
                raise end
    except RuntimeError:
        pass
    with place.opened():
        assert place.path.is_dir()


def test_partial_files_of_a_killed_process_are_removed_and_nothing_else(place):
    (place.path / "checkpoints").mkdir(parents=True)
    left = [
        place.path / ".network.safetensors.123.partial",
        place.path / "checkpoints" / ".step-1.9.partial",
    ]
    kept = place.path / "checkpoints" / "step-000000001.safetensors"
    for path in (*left, kept):
        path.write_bytes(b"some bytes")
    with place.opened():
        assert not any(path.exists() for path in left)
        assert kept.exists()


def test_a_closed_folder_holds_the_network_and_the_record(place):
    model = nn.Linear(3, 2)
    with place.opened():
        record = place.close(model, RECORD)
    assert (
        place.record()
        == record
        == dataclasses.replace(RECORD, content=content_hash(str(place.path)))
    )
    with safe_open(place.network, framework="pt") as file:
        assert torch.equal(file.get_tensor("weight"), model.weight)
        assert file.metadata() == {"run": RUN.name}


def test_a_record_without_its_network_does_not_count(place):
    with place.opened():
        place.close(nn.Linear(3, 2), RECORD)
    place.network.unlink()
    assert place.record() is None


def test_tied_weights_in_channels_last_can_be_closed(place):
    model = nn.Sequential(nn.Conv2d(2, 2, 3), nn.Conv2d(2, 2, 3)).to(
        memory_format=torch.channels_last
    )
    model[1].weight = model[0].weight
    with place.opened():
        place.close(model, RECORD)
    with safe_open(place.network, framework="pt") as file:
        assert torch.equal(file.get_tensor("1.weight"), model[0].weight)
