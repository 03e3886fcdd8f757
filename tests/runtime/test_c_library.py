"""The C library: built by two compilers, run under the sanitizers, found by CMake, against Python."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sparsegate_runtime import Network
from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n
from sparsegate_runtime.network_file import Capture, encode, sketch_of

FOLDER = Path(__file__).parents[2] / "packages" / "runtime" / "c"
CMAKE = """
cmake_minimum_required(VERSION 3.10)
project(uses C)
find_package(sparsegate REQUIRED)
add_executable(run_image {source})
target_link_libraries(run_image sparsegate::sparsegate)
"""
pytestmark = pytest.mark.slow


def make(*words):
    return subprocess.run(
        ["make", "-s", "-C", FOLDER, *words], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def network():
    """Sparse layers, an embedding whose indices may be bad, and a recurrent layer."""
    random = np.random.default_rng(0)
    ids = n.Input(shape=(1, 5), index=0, name="ids", kind="int64")
    table = n.Embedding(
        inputs=(ids,),
        shape=(1, 5, 16),
        table=random.normal(size=(9, 16)).astype(np.float32),
        name="table",
    )
    weight = random.normal(size=(24, 16)).astype(np.float32) * (random.random((24, 16)) < 0.3)
    sums = n.Linear(inputs=(table,), shape=(1, 5, 24), weight=weight, bias=None, name="cell")
    steps = random.normal(size=(24, 8)).astype(np.float32) * (random.random((24, 8)) < 0.5)
    cell = n.Recurrent(
        inputs=(sums,), shape=(1, 5, 8), cell="gru", weight=steps, bias=None, name="cell"
    )
    out = n.Map(inputs=(cell,), shape=(1, 5, 8), function=Function.SILU)
    made = n.Network((ids, table, sums, cell, out), (out,))
    return Network.from_bytes(encode(sketch_of([Capture(made, {})], outputs=["scores"])))


@pytest.fixture(scope="module")
def image(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("image") / "net.sgi"
    path.write_bytes(network.image())
    return path


@pytest.fixture(scope="module", params=["gcc", "clang"])
def built(request, tmp_path_factory):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    openmp = ["OPENMP="] if request.param == "clang" else []
    done = make("check", f"BUILD={folder}", f"CC={request.param}", "CFLAGS=-O1", *openmp)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def test_it_computes_what_python_does(built, image, network, tmp_path):
    ids = np.array([[0, 8, 3, 3, 1]])
    (tmp_path / "ids.bin").write_bytes(ids.tobytes())
    done = run(built / "run_image", image, tmp_path / "ids.bin", tmp_path / "out.bin")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["input  ids [1, 5]", "output scores [1, 5, 8]"]
    found = np.fromfile(tmp_path / "out.bin", np.float32).reshape(1, 5, 8)
    assert np.allclose(found, network(ids), atol=1e-6)


def test_two_threads_may_run_one_network(built, image):
    done = run(built / "two_lanes", image)
    assert (done.returncode, done.stdout) == (0, "two threads compute the same\n")


def test_errors_are_in_words(built, image, tmp_path):
    (tmp_path / "ids.bin").write_bytes(np.full((1, 5), 9).tobytes())
    done = run(built / "run_image", image, tmp_path / "ids.bin")
    assert done.returncode == 1
    assert "an index is outside of its table" in done.stderr
    raw = bytearray(image.read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "bad.sgi").write_bytes(raw)
    done = run(built / "run_image", tmp_path / "bad.sgi")
    assert done.returncode == 1
    assert "does not match its checksum" in done.stderr


def test_the_shared_library_exports_five_functions(built):
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", built / "libsparsegate.so"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert names == {"sg_load", "sg_describe", "sg_run", "sg_free", "sg_last_error"}


def test_it_runs_under_the_sanitizers(image, tmp_path):
    done = make("sanitize", f"BUILD={tmp_path}", "CC=gcc", f"IMAGE={image}")
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    assert "two threads compute the same" in done.stdout


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake_finds_it(image, tmp_path):
    done = make(
        "install",
        f"BUILD={tmp_path / 'build'}",
        f"PREFIX={tmp_path / 'prefix'}",
        "CC=gcc",
        "CFLAGS=-O1",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (tmp_path / "CMakeLists.txt").write_text(
        CMAKE.format(source=FOLDER / "examples" / "run_image.c")
    )
    steps = [
        [
            "cmake",
            "-S",
            tmp_path,
            "-B",
            tmp_path / "out",
            f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}",
        ],
        ["cmake", "--build", tmp_path / "out"],
        [tmp_path / "out" / "run_image", image],
    ]
    for words in steps:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
