"""The command sparsegate-run: shows networks, runs them, writes images."""

import numpy as np
import pytest

from sparsegate_runtime import Network
from sparsegate_runtime.engine import Function, Image
from sparsegate_runtime.engine import network as n
from sparsegate_runtime.network_file import Capture, Symbol, sketch_of, write
from sparsegate_runtime.run_command import main


def sums(batch):
    left, right = (
        n.Input(shape=(batch, 3), index=index, name=name)
        for index, name in enumerate(("left", "right"))
    )
    both = n.Map(inputs=(left, right), shape=(batch, 3), function=Function.ADD)
    weight = np.array([[1, 0, 2], [0, 0, 3]], np.float32)
    out = n.Linear(inputs=(both,), shape=(batch, 2), weight=weight, bias=None, name="mix")
    return n.Network((left, right, both, out), (both, out))


@pytest.fixture
def path(tmp_path):
    captures = [Capture(sums(batch), {"batch": batch}) for batch in (2, 3)]
    write(
        sketch_of(captures, [Symbol("batch", example=1)], outputs=["sum", "mixed"]),
        tmp_path / "net.sgn",
    )
    np.save(tmp_path / "left.npy", np.float32([[1, 2, 3]]))
    np.save(tmp_path / "right.npy", np.float32([[0, 0, 1]]))
    return tmp_path / "net.sgn"


def run(capsys, *words):
    code = main([str(word) for word in words])
    return code, *capsys.readouterr()


def test_it_shows_a_network(path, capsys):
    code, out, err = run(capsys, path)
    assert (code, err) == (0, "")
    assert "input   left: float32 [batch, 3]" in out
    assert "2 x 3   50.0%" in out


def test_it_runs_a_network(path, capsys):
    folder = path.parent
    words = ["--input", folder / "left.npy", "--input", f"right={folder / 'right.npy'}"]
    code, out, _ = run(capsys, path, *words, "--output", folder / "y.npz", "--threads", 1)
    assert code == 0
    assert out.splitlines() == ["sum [1, 3]: 1 2 4", "mixed [1, 2]: 9 12"]
    assert np.load(folder / "y.npz")["mixed"].tolist() == [[9, 12]]


def test_it_writes_an_image_that_computes_the_same(path, capsys):
    folder = path.parent
    code, out, _ = run(
        capsys, path, "--image", folder / "net.sgi", "--size", "batch=4", "--instructions", "avx2"
    )
    image = Image((folder / "net.sgi").read_bytes())
    assert code == 0
    assert out == f"{folder / 'net.sgi'}: {(folder / 'net.sgi').stat().st_size:,} bytes\n"
    assert [one.shape for one in image.inputs] == [(4, 3), (4, 3)]
    given = [np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32) for seed in (0, 1)]
    for one, other in zip(image.run(given), Network.load(path)(*given), strict=True):
        assert np.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--input", "left.npy"], "expected the inputs left, right, got 1 in order"),
        (["--input", "nothing.npy"], "nothing.npy"),
        (["--input", "net.sgn", "--input", "net.sgn"], "must be an array saved by numpy.save"),
        (
            ["--input", "left.npy", "--input", "right.npy", "--output", "y.npy"],
            "write to an .npz file",
        ),
        (["--output", "y.npy"], "--output needs --input"),
        (["--input", "left=left.npy", "--input", "left=right.npy"], "pass the input left once"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--image", "net.sgi", "--size", "batch"], "such as batch=1"),
        (["--image", "net.sgi", "--size", "length=3"], "the sizes that vary are batch, got length"),
        (["--image", "net.sgi", "--size", "batch=0"], "must be at least 1"),
        (["--image", "net.sgi", "--input", "left.npy"], "--image does not run the network"),
        (["--size", "batch=1"], "are options of --image"),
    ],
)
def test_errors_are_one_line(path, capsys, monkeypatch, words, complaint):
    monkeypatch.chdir(path.parent)
    before = sorted(path.parent.iterdir())
    code, out, err = run(capsys, "net.sgn", *words)
    assert (code, out) == (2, "")
    assert err.startswith("sparsegate-run: error: ")
    assert complaint in err
    assert err.count("\n") == 1
    assert sorted(path.parent.iterdir()) == before
