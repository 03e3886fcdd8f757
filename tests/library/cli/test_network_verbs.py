"""`sparsegate inspect` and `sparsegate compress` on everything a user may point at."""

import pytest
import torch
from safetensors.torch import save_file

import sparsegate as sg
from sparsegate.cli import main
from sparsegate.files import load
from sparsegate_lab.methods import LearnedGates, Svd
from sparsegate_lab.models import LeNet300
from sparsegate_lab.train import RunFolder, train


@pytest.fixture(scope="module")
def run_folder(small, tmp_path_factory):
    run = small(method=LearnedGates(gate_lr=400.0))
    folder = tmp_path_factory.mktemp("runs")
    train(run, folder=folder)
    return RunFolder(folder / run.name, run).path


def network(folder):
    return load(folder / "network.sg").state_dict()


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_leaves_its_network_packed(run_folder):
    assert same(network(run_folder), load(run_folder / "network.sparse.safetensors").state_dict())


@pytest.mark.parametrize("ending", ["sg", "sparse.safetensors"])
def test_every_source_gives_the_same_network(ending, run_folder, tmp_path, capsys):
    state = network(run_folder)
    torch.save({"state_dict": state}, tmp_path / "network.pt")
    save_file(state, tmp_path / "network.safetensors")
    sources = [
        run_folder,
        run_folder / "network.sg",
        tmp_path / "network.pt",
        tmp_path / "network.safetensors",
    ]
    for source in [*sources, run_folder / "network.sparse.safetensors"]:
        target = tmp_path / f"out.{ending}"
        assert main(["compress", str(source), str(target)]) == 0
        assert same(network(run_folder), load(target).state_dict())
    assert "times smaller than dense" in capsys.readouterr().out


def test_inspect_shows_the_table_and_a_bar_for_every_weight(run_folder, capsys):
    assert main(["inspect", str(run_folder)]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in LeNet300().state_dict())
    assert out.count(" % kept") == 3
    assert "the paper's count" in out


def with_a_dead_unit(folder):
    model = LeNet300()
    with torch.no_grad():
        model.fc1.weight[3:] = 0  # units that read nothing,
        model.fc1.bias[3:] = 0
        model.fc2.weight[:, 1] = 0  # and one that nobody reads
    path = folder / "dead.safetensors"
    save_file(model.state_dict(), path)
    return path


def test_inspect_says_what_is_dead_and_what_would_be_saved(tmp_path, capsys):
    path = with_a_dead_unit(tmp_path)
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "fc1: 298 of 300 units; 784 weights and 1 biases to remove" in out
    assert f"on disk now: {path.stat().st_size:,} bytes" in out
    lines = [
        line for line in out.splitlines() if line.startswith(("unchanged", "without dead paths"))
    ]
    sizes = [
        [int(word.replace(",", "")) for word in line.split() if word[0].isdigit()] for line in lines
    ]
    dense, sparse, tight, _, *_ = sizes[0]
    assert dense > sparse > tight
    assert all(after < before for before, after in zip(sizes[0][1:4], sizes[1][1:4], strict=True))


def test_inspect_asks_for_the_model_if_it_does_not_know_it(tmp_path, capsys):
    save_file({"strange": torch.eye(9)}, tmp_path / "strange.safetensors")
    assert main(["inspect", str(tmp_path / "strange.safetensors")]) == 0
    out = capsys.readouterr().out
    assert "not those of a registered model (lenet5, lenet5-lasagne, lenet300" in out
    assert "unchanged" in out
    assert main(["inspect", str(tmp_path / "strange.safetensors"), "--model", "lenet5"]) == 2
    assert "not those of lenet5" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "strange.safetensors"), "--model", "lenet6"]) == 2
    assert "did you mean 'lenet5'" in capsys.readouterr().err


def test_inspect_finds_no_dead_paths_in_a_dense_network(tmp_path, capsys):
    torch.save(LeNet300().state_dict(), tmp_path / "dense.pt")
    assert main(["inspect", str(tmp_path / "dense.pt"), "--model", "lenet300"]) == 0
    assert "dead paths: none" in capsys.readouterr().out


def test_bits_of_a_run_report_the_accuracy_before_after_and_tuned(run_folder, tmp_path, capsys):
    target = tmp_path / "small.sg"
    assert main(["compress", str(run_folder), str(target), "--bits", "3", "--tune", "1"]) == 0
    out = capsys.readouterr().out
    assert all(
        word in out
        for word in ("3 bits: before validation", "after validation", "tuned validation")
    )
    weights = torch.cat(
        [each.flatten() for each in load(target).state_dict().values() if each.ndim > 1]
    )
    assert len(weights[weights != 0].unique()) <= 8


def test_a_network_with_other_layers_than_its_model_is_tried_with_them(small, tmp_path, capsys):
    run = small(method=Svd(rank=5))
    record = train(run, folder=tmp_path)
    assert (
        main(
            [
                "compress",
                str(tmp_path / run.name),
                str(tmp_path / "small.sg"),
                "--bits",
                "8",
                "--tune",
                "1",
            ]
        )
        == 0
    )
    assert (
        f"before validation {record.validation:.2f} %, test {record.test:.2f} %"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("inspect", "nowhere"), "there is no file"),
        (("inspect",), "PATH"),
        (("compress", "RUN"), "TARGET"),
        (("compress", "RUN", "out.zip"), "must end in .sparse.safetensors or .sg"),
        (("compress", "RUN", "out.sg", "--bits", "9"), "from 2 to 8"),
        (
            ("compress", "RUN/network.sg", "out.sg", "--bits", "3", "--tune", "1"),
            "--tune needs the data of a run",
        ),
        (
            ("compress", "RUN", "out.sg", "--tune", "2"),
            "--tune 2 trains the values of --bits; add --bits",
        ),
        (
            ("compress", "RUN", "out.sg", "--bits", "3", "--tune", "-1"),
            "--tune is a number of epochs, 0 or more, got -1",
        ),
        (
            ("compress", "RUN", "out.sg", "--bit", "3"),
            "unrecognized arguments: --bit 3; did you mean --bits? see sparsegate compress --help",
        ),
        (("inspect", "RUN/run.json"), "not a state dict"),
        (("inspect", "RUN/checkpoints"), "not the folder of a run"),
    ],
)
def test_input_that_cannot_be_used_is_one_line(
    words, wanted, run_folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main([word.replace("RUN", str(run_folder)) for word in words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sparsegate: error: ")
    assert error.count("\n") == 1
    assert wanted in error
    assert list(tmp_path.iterdir()) == []


def test_inspect_shows_the_operations_of_a_network_file(tmp_path, capsys):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    sg.save_network(model, torch.zeros(1, 4), tmp_path / "net.sgn")
    assert main(["inspect", str(tmp_path / "net.sgn")]) == 0
    out = capsys.readouterr().out
    assert "input   x: float32 [batch, 4]" in out
    assert "relu" in out
    (tmp_path / "net.sgn").write_bytes(b"sgn")
    assert main(["inspect", str(tmp_path / "net.sgn")]) == 2
    assert "not an .sgn file" in capsys.readouterr().err
