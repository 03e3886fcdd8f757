"""A run's folder is held by one process, and says that the run has ended only when it has."""

import dataclasses
import json
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from torch import nn

from sparsegate.files import load
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, RunFolder, finished_network
from sparsegate_lab.train.weights import content_hash, read_weights
from sparsegate_runtime.schema import load_json

RUN = Run(epochs=3)
SETTINGS = {"model": "toy", "data": "toys", "method": {"name": "dense"}}
RECORD = Record("toy", SETTINGS, "", {}, {}, (), 0, 0, 0.0, 0.0, (), 0.0)


@pytest.fixture
def place(tmp_path):
    return RunFolder(tmp_path / "some" / "run", RUN)


def test_a_new_folder_has_no_record(place):
    assert place.record() is None
    assert not place.path.exists()


def test_an_opened_folder_holds_the_settings_of_its_run(place):
    with place.opened():
        assert load_json(place.path / "run.json", Run.from_json) == RUN


def test_a_second_process_is_refused_while_the_first_trains(place):
    # flock is held per open file, so this process is refused as another one would be
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


def test_a_network_that_is_not_the_recorded_one_is_refused(place):
    with place.opened():
        place.close(nn.Linear(3, 2), RECORD)
    place.network.write_bytes(place.network.read_bytes()[:-1])
    with pytest.raises(
        ValueError, match=r"network\.safetensors does not match its hash in record\.json.*; restore"
    ):
        place.record()


def test_packed_files_that_are_missing_are_made_again(place):
    with place.opened():
        place.close(nn.Linear(3, 2), RECORD)
    content = {path: load(path).state_dict() for path in place.packed}
    assert [path.name for path in content] == ["network.sparse.safetensors", "network.sg"]
    kept, lost = content
    changed = kept.stat().st_mtime_ns
    lost.unlink()
    place.repair()
    assert place.packed == [kept, lost]
    again = load(lost).state_dict()
    assert again.keys() == content[lost].keys()
    assert all(torch.equal(again[name], each) for name, each in content[lost].items())
    assert kept.stat().st_mtime_ns == changed


def test_a_network_that_is_trained_again_is_packed_again(place):
    with place.opened():
        place.close(nn.Linear(3, 2), RECORD)
        before = [path.read_bytes() for path in place.packed]
        place.close(nn.Linear(3, 2), RECORD)
    assert [path.read_bytes() for path in place.packed] != before


def test_an_ended_run_removes_what_a_killed_process_left(place):
    with place.opened():
        place.close(nn.Linear(3, 2), RECORD)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    left = place.path / f".report.html.{process.pid}.partial"
    left.write_bytes(b"half a page")
    place.repair()
    assert not left.exists()


def test_a_lock_file_that_is_a_symbolic_link_is_refused_and_its_target_is_left_alone(
    place, tmp_path
):
    victim = tmp_path / "victim"
    victim.write_text("important")
    place.path.mkdir(parents=True)
    (place.path / ".lock").symlink_to(victim)
    with pytest.raises(ValueError, match=r"\.lock is a symbolic link.*; remove it"), place.opened():
        pass
    assert victim.read_text() == "important"


def test_a_lock_file_is_not_truncated(place):
    place.path.mkdir(parents=True)
    (place.path / ".lock").write_text("a note of somebody")
    with place.opened():
        assert (place.path / ".lock").read_text() == "a note of somebody"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"a": 1}, "method: expected an object with a name"),
        ({**RUN.to_json(), "epochs": None}, "epochs: expected a whole number, got null"),
        ({**RUN.to_json(), "data": 5}, "data: expected a string, got 5"),
        (
            {**RUN.to_json(), "method": {"name": "dense", "a": 1}},
            "method.a: unknown field of Dense",
        ),
        (
            {**RUN.to_json(), "method": {"name": "den"}},
            "unknown method 'den'; did you mean 'dense'",
        ),
        ({**RUN.to_json(), "stop": {"rate": "x"}}, 'stop.rate: expected a number, got "x"'),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_file_and_field(value, wanted, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(value))
    with pytest.raises(ValueError, match=rf"run\.json: {wanted}"):
        load_json(path, Run.from_json)


def flipped(path, index):
    content = bytearray(path.read_bytes())
    content[index] ^= 1
    path.write_bytes(content)


def test_a_damaged_network_of_an_ended_run_is_refused_wherever_it_is_read(place):
    with place.opened():
        place.close(nn.Linear(3, 2), RECORD)
    assert finished_network(place.path) == place.network
    assert read_weights(str(place.path)).keys() == {"weight", "bias"}
    flipped(place.network, -1)
    for read in (finished_network, read_weights):
        with pytest.raises(ValueError, match=r"does not match its hash in record\.json"):
            read(place.path if read is finished_network else str(place.path))


def test_a_flipped_bit_of_the_settings_is_refused(place):
    with place.opened():
        pass
    path = place.path / "run.json"
    content = path.read_bytes()
    for index in range(0, len(content), 5):
        flipped(path, index)
        with pytest.raises(ValueError, match=r"run\.json: "):
            load_json(path, Run.from_json)
        path.write_bytes(content)
    assert load_json(path, Run.from_json) == RUN
