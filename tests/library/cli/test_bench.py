"""`sparsegate bench` on a small network."""

import contextlib
import io
import json

import pytest
import torch

from sparsegate.bench import Speed
from sparsegate.cli import main
from sparsegate.files import compress, load
from sparsegate_lab.models import LeNet300

QUICK = ("--batches", "1", "4", "--threads", "1", "--no-compile", "--seconds", "0.01")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A LeNet-300-100 of three classes, nine tenths of it zeros, that no run has made."""
    model = LeNet300(num_classes=3)
    for layer in (model.fc1, model.fc2):
        layer.weight.data[
            torch.rand(layer.weight.shape, generator=torch.Generator().manual_seed(0)) < 0.9
        ] = 0
    path = tmp_path_factory.mktemp("networks") / "network.sg"
    compress(model).save(path)
    return path


@pytest.fixture(scope="module")
def benched(network):
    """What the command shows and the record it writes, made once."""
    shown, record = io.StringIO(), network.with_name("speed.json")
    with contextlib.redirect_stdout(shown):
        assert main(["bench", str(network), *QUICK, "--out", str(record)]) == 0
    return shown.getvalue(), record


def test_the_model_of_a_file_is_the_one_that_fits_and_every_batch_has_a_row(benched):
    out, _ = benched
    heading, header = out.splitlines()[:2]
    assert heading == "lenet300, medians in milliseconds (first to third quartile)"
    assert header.split()[:5] == ["threads", "batch", "torch", "eager", "ms"]
    assert "torch.compile" not in out
    assert [line.split()[:2] for line in out.splitlines()[2:4]] == [["1", "1"], ["1", "4"]]


def test_the_layers_are_shown_with_what_was_chosen(network, benched):
    out, _ = benched
    assert out.count("whole network: ") == 2
    weight = load(network).state_dict()["fc1.weight"]
    zeros = 100 * float((weight == 0).double().mean())
    assert [line.split()[1] for line in out.splitlines() if line.startswith("fc1 ")] == 2 * [
        f"{zeros:.2f}"
    ]


def test_the_record_says_what_was_done_and_holds_every_time(network, benched):
    shown, out = benched
    speed = Speed.load(out)
    assert speed.network == "lenet300"
    assert speed.command.startswith(f"sparsegate bench {network} --batches 1 4")
    assert [timing.batch for timing in speed.timings] == [1, 4]
    assert {"torch eager", "sparsegate"} <= set(speed.engines)
    assert max(max(timing.differences.values()) for timing in speed.timings) < 1e-5
    assert [each["name"] for each in speed.layers[0]["layers"]] == ["fc1", "fc2", "fc3"]
    assert {"torch", "sparsegate", "python"} <= speed.versions.keys()
    plots = [path.suffix for path in out.parent.glob("speed.*") if path != out]
    assert sorted(plots) == [".png", ".svg"] or "pip install 'sparsegate[plot]'" in shown


def test_a_run_knows_its_model_and_another_is_refused(network, tmp_path, capsys):
    (tmp_path / "run.json").write_text(json.dumps({"model": "lenet300"}))
    (tmp_path / "network.sg").write_bytes(network.read_bytes())
    words = ["bench", str(tmp_path / "network.sg"), *QUICK[3:], "--batches", "1"]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("lenet300,")
    assert main([*words, "--model", "lenet5"]) != 0
    assert "a network of lenet300, got --model lenet5; leave it out" in capsys.readouterr().err


@pytest.mark.slow
def test_torch_compile_is_timed_as_well(network, python):
    done = python(
        "-m",
        "sparsegate",
        "bench",
        str(network),
        "--batches",
        "1",
        "--threads",
        "1",
        "--seconds",
        "0.01",
    )
    assert done.returncode == 0, done.stderr
    assert "torch.compile ms" in done.stdout
    assert "torch.compile failed" not in done.stdout


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("nowhere",), "there is no file"),
        (
            ("OTHER",),
            "other.sg: its tensors are not those of a registered model (lenet5, lenet5-lasagne, "
            "lenet300",
        ),
        (("NETWORK", "--model", "lenet6"), "unknown model 'lenet6'; did you mean 'lenet5'?"),
        (("NETWORK", "--model", "lenet5"), "not those of lenet5, but of lenet300"),
        (("NETWORK", "--batches", "0"), "counted from 1"),
        (("NETWORK", "--threads", "0"), "counted from 1"),
        (("NETWORK", "--out", "no/such/folder.json"), "there is no folder no/such"),
    ],
)
def test_input_that_cannot_be_used_is_one_line(
    words, wanted, network, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    compress(torch.nn.Linear(3, 2)).save(tmp_path / "other.sg")
    given = [word.replace("NETWORK", str(network)).replace("OTHER", "other.sg") for word in words]
    assert main(["bench", *given]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sparsegate: error: ")
    assert error.count("\n") == 1
    assert wanted in error


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--out", "network.sg"), "would overwrite the network itself"),
        (("--out", "speed.svg"), "--out is a file for the record, such as speed.json"),
        (("--out", "speed.png"), "--out is a file for the record, such as speed.json"),
        (("--out", "."), "--out is a file for the record, such as speed.json"),
        (("--seconds", "-1"), "seconds is a time above zero, got --seconds -1.0"),
        (("--seconds", "nan"), "seconds is a time above zero, got --seconds nan"),
    ],
)
def test_nothing_is_written_over_and_nothing_measured_in_vain(
    words, wanted, network, monkeypatch, capsys
):
    monkeypatch.chdir(network.parent)
    before = network.read_bytes()
    assert main(["bench", "network.sg", *QUICK, *words]) != 0
    assert wanted in capsys.readouterr().err
    assert network.read_bytes() == before


NETWORKS = """
import torch
from torch import nn


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(8, 16), nn.Linear(4, 16)

    def forward(self, x, *, other):
        return {"sum": self.left(x) + self.right(other), "length": x.shape[1]}


def pair():
    return Sum(), {"x": torch.randn(2, 3, 8), "other": torch.randn(2, 3, 4)}


def image():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2)), torch.randn(1, 3, 8, 8)


def alone():
    return Sum()


def wrong():
    return Sum(), torch.randn(1, 8)
"""


@pytest.mark.parametrize("word", ["networks_of_a_test:pair", "networks_of_a_test.py:image"])
def test_a_model_of_the_users_own_is_timed_in_every_engine(word, tmp_path, monkeypatch, capsys):
    (tmp_path / "networks_of_a_test.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["bench", word, *QUICK, "--out", "speed.json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{word.partition(':')[2]}, medians in milliseconds")
    assert "failed" not in out
    speed = Speed.load(tmp_path / "speed.json")
    assert [timing.batch for timing in speed.timings] == [1, 4]
    assert max(max(timing.differences.values()) for timing in speed.timings) < 1e-4


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("networks_of_a_test:nothing", "networks_of_a_test has no function or class nothing"),
        ("networks_of_a_test:alone", "expected a pair of a model and an example of its inputs"),
        ("networks_of_a_test:wrong", "does not run on its example: TypeError"),
        ("no_such_networks:pair", "cannot import no_such_networks"),
        ("no_such_networks.py:pair", "there is no file no_such_networks.py"),
    ],
)
def test_a_function_that_gives_no_model_is_one_line(word, wanted, tmp_path, monkeypatch, capsys):
    (tmp_path / "networks_of_a_test.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["bench", word, *QUICK]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert wanted in error
