"""State dicts are read from safetensors and from what torch saved, and never run code."""

import pickle
import random

import pytest
import torch
from safetensors.torch import save_file

from sparsegate.files import read_state_dict

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3)}


class Evil:
    def __reduce__(self):
        return print, ("ran",)


def test_both_kinds_of_file_give_the_tensors(tmp_path):
    save_file(STATE, tmp_path / "one.safetensors")
    torch.save(STATE, tmp_path / "two.pth")
    torch.save({"state_dict": STATE, "epoch": 3}, tmp_path / "three.pt")
    for path in tmp_path.iterdir():
        state = read_state_dict(path)
        assert list(state) == ["a.weight"]
        assert torch.equal(state["a.weight"], STATE["a.weight"])


def test_code_in_a_file_does_not_run(tmp_path, capsys):
    (tmp_path / "evil.pth").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match="not a state dict that can be loaded safely"):
        read_state_dict(tmp_path / "evil.pth")
    assert "ran" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.safetensors", b"no", "not a safetensors file"),
        ("a.pth", b"", "loaded safely"),
        ("a.pth", b"# a text", "loaded safely: expected a file written by torch.save"),
        *(("a.pth", random.Random(seed).randbytes(99), "loaded safely") for seed in range(30)),
        (None, b"", "there is no file"),
    ],
)
def test_what_is_no_state_dict_is_refused(name, content, wanted, tmp_path):
    if name:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=wanted):
        read_state_dict(tmp_path / (name or "missing.pth"))


def test_a_list_of_tensors_is_no_state_dict(tmp_path):
    torch.save([torch.zeros(2)], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="holds no state dict of tensors"):
        read_state_dict(tmp_path / "list.pth")


def test_tensors_by_number_are_no_state_dict(tmp_path):
    torch.save({"a": torch.zeros(2), 7: torch.zeros(2)}, tmp_path / "numbers.pth")
    with pytest.raises(
        ValueError,
        match=r"numbers.pth holds no state dict of tensors: 7 is not a name; save what model",
    ):
        read_state_dict(tmp_path / "numbers.pth")
