"""Every command that a page prints for a finished run, or for a network file, runs."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.cli import main
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run, train
from sparsegate_runtime.run_command import main as run_network

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "howto").glob("*.md"))
VERBS = ("bench", "compress", "export", "inspect", "report")
NAMES = re.compile(r"runs/[\w.-]+")
OTHERS = ("networks.py", ".tflite", "ids=")
"""Parts of commands whose files only their own pages make."""


def printed():
    """The page and the words of each command."""
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                is_ours = words[:1] == ["sparsegate-run"] or (
                    words[:1] == ["sparsegate"] and words[1] in VERBS
                )
                if is_ours and not any(part in line for part in OTHERS):
                    yield pytest.param(words, id=f"{page.stem}: {' '.join(words)}")


@pytest.fixture(scope="module")
def place(digits, tmp_path_factory):
    """A folder with the files that commands read, and the names of two runs in it."""
    folder = tmp_path_factory.mktemp("commands")
    method = LearnedGates(target=sg.Target(keep=0.02))
    runs = [
        Run(model="lenet5", data=str(digits), epochs=1, seed=seed, method=method) for seed in (0, 1)
    ]
    for run in runs:
        train(run, folder=folder / "runs")
    names = [run.name for run in runs]
    network = folder / "runs" / names[0]
    assert main(["export", str(network), str(folder / "network.onnx"), "--to", "onnx"]) == 0
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)).eval()
    sg.save_network(model, torch.zeros(2, 8), folder / "net.sgn")
    np.save(folder / "x.npy", np.zeros((2, 8), np.float32))
    np.save(folder / "inputs.npy", np.random.default_rng(0).random((4, 1, 28, 28), np.float32))
    return folder, names


@pytest.mark.slow
@pytest.mark.parametrize("words", list(printed()))
def test_a_printed_command_runs(words, place, monkeypatch, capsys):
    folder, names = place
    monkeypatch.chdir(folder)
    found = iter([*names, names[1]])
    words = [NAMES.sub(lambda _: f"runs/{next(found)}", word) for word in words]
    words = [word.replace("results/", f"{ROOT}/results/") for word in words]
    program, *flags = words
    if program == "sparsegate-run":  # another command may have written that file
        shutil.copy("net.sgn", "network.sgn")
    assert (run_network if program == "sparsegate-run" else main)(flags) == 0, capsys.readouterr()
