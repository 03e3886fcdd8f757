"""The library's verbs where the laboratory is not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sparsegate.files import compress

PACKAGES = Path(__file__).parents[3] / "packages"
CALL = "import sys; from sparsegate.cli import main; sys.exit(main(sys.argv[1:]))"
OURS = ("sparsegate", "__editable__")
ABSENT = ("tyro", "rich", "accelerate")
VERBS = """[sparsegate.verbs]
inspect = sparsegate.cli.inspect:main
bench = sparsegate.cli.bench:main
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Site-packages with the library's metadata, without the laboratory and what it needs."""
    folder = tmp_path_factory.mktemp("site")
    for path in {Path(torch.__file__).parents[1], Path(pytest.__file__).parents[1]}:
        for entry in path.iterdir():
            wanted = not entry.name.startswith((*OURS, *ABSENT))
            if wanted and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    about = folder / "sparsegate-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sparsegate\n")
    (about / "entry_points.txt").write_text(VERBS)
    return folder


@pytest.fixture
def network(tmp_path):
    model = torch.nn.Linear(30, 20)
    model.weight.data *= torch.rand_like(model.weight) > 0.9
    compress(model).save(tmp_path / "network.sparse.safetensors")
    return tmp_path / "network.sparse.safetensors"


def run(site, *words):
    path = f"{PACKAGES / 'runtime'}:{PACKAGES / 'library'}:{site}"
    return subprocess.run(
        [sys.executable, "-S", "-c", CALL, *map(str, words)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_inspect_shows_the_tensors_and_says_why_it_skips_dead_paths(site, network):
    done = run(site, "inspect", network)
    assert (done.returncode, done.stderr) == (0, "")
    assert " % kept" in done.stdout
    assert "dead paths: not searched, because the file holds tensors only" in done.stdout
    assert "pip install sparsegate-lab" in done.stdout


@pytest.mark.parametrize("words", [(), ("--model", "lenet5")])
def test_bench_needs_a_model_and_says_who_has_one(words, site, network):
    done = run(site, "bench", network, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "pip install sparsegate-lab" in done.stderr


def test_training_says_what_to_install(site):
    done = run(site, "train", "lenet5")
    assert done.returncode == 2
    assert "train is part of sparsegate-lab: pip install sparsegate-lab; or" in done.stderr
    assert 'pip install ".[lab]"' in done.stderr
