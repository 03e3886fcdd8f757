"""A checkpoint holds model and optimizers bit for bit, without pickle, for one run only."""

import contextlib
import copy

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from sparsegate import GateSGD, gate
from sparsegate_lab.train.checkpoint import Checkpoints, checksum

IMAGES = torch.randn(6, 2, 5, 5, generator=torch.Generator().manual_seed(0))


def toy():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4))
    return gate(model).to(memory_format=torch.channels_last)


def optimizers(kind, model):
    own = GateSGD(model, lr=0.1)
    rest = [
        each
        for each in model.parameters()
        if all(each is not gated for gated in own.param_groups[0]["params"])
    ]
    made = {
        "sgd": lambda: [torch.optim.SGD(rest, lr=0.1, momentum=0.9)],
        "adamw": lambda: [torch.optim.AdamW(rest, lr=0.01, betas=(0.8, 0.95))],
        "gates": lambda: [torch.optim.SGD(rest, lr=0.1, momentum=0.9), own],
    }
    return made[kind]()


def step(model, moving, count=1):
    for _ in range(count):
        model(IMAGES).square().mean().backward()
        for optimizer in moving:
            optimizer.step()
        model.zero_grad()


def same(one, other):
    if isinstance(one, torch.Tensor):
        return (
            torch.equal(one, other) and one.dtype == other.dtype and one.stride() == other.stride()
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize("kind", ["sgd", "adamw", "gates"])
def test_model_and_optimisers_come_back_bit_for_bit_and_go_on_alike(kind, tmp_path):
    model = toy()
    moving = optimizers(kind, model)
    step(model, moving, 3)
    checkpoints = Checkpoints(tmp_path, "run")
    checkpoints.save(3, model, moving, {"epochs": [1.5]})
    again = toy()
    resumed = optimizers(kind, again)
    assert checkpoints.resume(again, resumed) == (3, {"epochs": [1.5]})
    for _ in range(2):
        assert same(model.state_dict(), again.state_dict())
        assert all(
            same(one.state_dict(), other.state_dict())
            for one, other in zip(moving, resumed, strict=True)
        )
        step(model, moving)
        step(again, resumed)


def test_the_price_and_the_learning_rate_of_the_gates_come_back(tmp_path):
    model = toy()
    own = GateSGD(model, lr=0.1)
    own.price, own.param_groups[0]["lr"] = 0.25, 0.07
    Checkpoints(tmp_path, "run").save(1, model, [own], {})
    again = GateSGD(toy(), lr=0.1)
    Checkpoints(tmp_path, "run").resume(toy(), [again])
    assert (again.price, again.param_groups[0]["lr"]) == (0.25, 0.07)


def test_without_a_checkpoint_training_begins_at_step_0_and_nothing_changes(tmp_path):
    model = toy()
    before = copy.deepcopy(model.state_dict())
    assert Checkpoints(tmp_path / "none", "run").resume(model, []) == (0, {})
    assert same(model.state_dict(), before)


def test_the_last_two_are_kept_and_the_newest_is_resumed(tmp_path):
    checkpoints, model = Checkpoints(tmp_path, "run"), toy()
    for number in (9, 10, 99, 100):
        checkpoints.save(number, model, [], {"number": number})
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "step-000000099.safetensors",
        "step-000000100.safetensors",
    ]
    assert checkpoints.resume(model, []) == (100, {"number": 100})


def test_a_checkpoint_is_a_safetensors_file_of_everything(tmp_path):
    model = toy()
    moving = optimizers("gates", model)
    step(model, moving)
    Checkpoints(tmp_path, "run").save(1, model, moving, {})
    (path,) = tmp_path.iterdir()
    with safe_open(path, framework="pt") as file:
        names = set(file.keys())
        assert file.metadata()["run"] == "run"
    assert {f"model/{name}" for name in model.state_dict()} <= names
    assert {"optimizer0/0/momentum_buffer", "optimizer1/0/momentum_buffer"} <= names


def test_tied_weights_are_saved_and_stay_tied(tmp_path):
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    Checkpoints(tmp_path, "run").save(1, tied, [], {})
    expected = tied[0].weight.detach().clone()
    nn.init.zeros_(tied[0].weight)
    Checkpoints(tmp_path, "run").resume(tied, [])
    assert torch.equal(tied[1].weight, expected)
    assert tied[0].weight is tied[1].weight


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    Checkpoints(tmp_path, "first").save(1, toy(), [], {})
    with pytest.raises(
        ValueError, match=r"is of another run \(first\); this is second: use another --folder"
    ):
        Checkpoints(tmp_path, "second").resume(toy(), [])


def saved_twice(folder):
    checkpoints, model = Checkpoints(folder, "run"), toy()
    moving = optimizers("gates", model)
    for number in (1, 2):
        step(model, moving)
        checkpoints.save(number, model, moving, {"number": number})
    return checkpoints, folder / "step-000000002.safetensors"


def flip(path, index):
    content = bytearray(path.read_bytes())
    content[index] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_after_a_truncated_checkpoint_the_one_before_is_resumed(cut, tmp_path):
    checkpoints, last = saved_twice(tmp_path)
    last.write_bytes(last.read_bytes()[:cut])
    found = checkpoints.newest()
    assert found.step == 1
    assert found.notes == {"number": 1}
    (note,) = found.damaged
    assert "step-000000002.safetensors is damaged: it cannot be read" in note
    assert "training continues from the one before" in note


@pytest.mark.parametrize("index", [-1, -2000, -200])
def test_a_single_flipped_bit_of_a_tensor_is_found(index, tmp_path):
    checkpoints, last = saved_twice(tmp_path)
    flip(last, index)
    found = checkpoints.newest()
    assert found.step == 1
    assert "its content does not match its checksum" in found.damaged[0]


def test_no_flipped_bit_anywhere_is_resumed_as_if_nothing_had_happened(tmp_path):
    checkpoints, last = saved_twice(tmp_path)
    whole = last.read_bytes()
    for index in range(0, len(whole), 53):
        flip(last, index)
        with contextlib.suppress(ValueError):  # a changed name of the run, or of a field
            assert checkpoints.newest().step == 1
        last.write_bytes(whole)
    assert checkpoints.newest().step == 2


@pytest.mark.parametrize("number", ["-5", "71", "abc"])
def test_a_changed_step_is_found(number, tmp_path):
    checkpoints, last = saved_twice(tmp_path)
    with safe_open(last, framework="pt") as file:
        about = file.metadata() | {"step": number}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, last, about)
    assert checkpoints.newest().step == 1
    last.rename(tmp_path / "step-000000071.safetensors")
    assert checkpoints.newest().step == 1


@pytest.mark.parametrize("name", ["groups", "notes"])
def test_metadata_with_a_right_checksum_that_is_not_json_is_refused_by_file(name, tmp_path):
    checkpoints, last = saved_twice(tmp_path)
    with safe_open(last, framework="pt") as file:
        about = file.metadata() | {name: "abc"}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, last, about | {"checksum": checksum(tensors, about)})
    with pytest.raises(ValueError, match=rf"{last.name} has metadata that is not JSON"):
        checkpoints.newest()


def test_if_all_checkpoints_are_damaged_the_error_says_what_to_do(tmp_path):
    checkpoints, _ = saved_twice(tmp_path)
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    with pytest.raises(
        ValueError,
        match=r"no checkpoint in .* can be read .*000002.* is damaged.*; delete the folder",
    ):
        checkpoints.resume(toy(), [])


def test_a_checkpoint_without_a_checksum_is_refused_as_one_of_an_earlier_version(tmp_path):
    about = {"run": "run", "step": "1", "groups": "[]", "notes": "{}"}
    save_file({"model/weight": torch.zeros(1)}, tmp_path / "step-000000001.safetensors", about)
    with pytest.raises(ValueError, match="has no checksum: an earlier version of sparsegate wrote"):
        Checkpoints(tmp_path, "run").newest()


def test_a_file_that_is_not_a_checkpoint_is_ignored(tmp_path):
    checkpoints, _ = saved_twice(tmp_path)
    (tmp_path / "step-x.safetensors").write_bytes(b"")
    assert checkpoints.newest().step == 2
    assert checkpoints.last_step() == 2


def test_a_checkpoint_of_another_model_is_refused_by_the_names_in_which_they_differ(tmp_path):
    checkpoints, _ = saved_twice(tmp_path)
    with pytest.raises(ValueError, match=r"does not fit the model: they differ in 0\.bias"):
        checkpoints.resume(nn.Linear(2, 2), [])


def test_saving_leaves_nothing_but_checkpoints(tmp_path):
    Checkpoints(tmp_path / "deep" / "folder", "run").save(7, toy(), [], {})
    assert [path.name for path in (tmp_path / "deep" / "folder").iterdir()] == [
        "step-000000007.safetensors"
    ]
