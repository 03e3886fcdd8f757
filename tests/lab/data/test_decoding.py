"""Photographs are decoded by processes that end with the one that began them."""

import fcntl
import io
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from sparsegate_lab.data import Storing
from sparsegate_lab.data.cache import load_or_decode
from sparsegate_lab.data.photos import PhotoSource

# Workers that take a minute for every photograph, and say when they begin with one.
SLOW = """
import sys, time
from pathlib import Path
from sparsegate_lab.data import Storing
from sparsegate_lab.data.cache import load_or_decode
from sparsegate_lab.data.photos import PhotoSource

class Slow(PhotoSource):
    labels = lambda self: [0] * 20
    name = lambda self, place: f"photograph {place}"
    key = lambda self: "twenty photographs"
    def read(self, place):
        print("begun", flush=True)
        time.sleep(60)

load_or_decode(Slow(), Storing(size=4, cache=Path(sys.argv[1])))
"""


class Quick(PhotoSource):
    """The same photographs, by their key."""

    def labels(self):
        return [0] * 20

    def name(self, place):
        return f"photograph {place}"

    def key(self):
        return "twenty photographs"

    def read(self, place):
        file = io.BytesIO()
        Image.fromarray(np.full((4, 4, 3), place, np.uint8)).save(file, "PNG")
        return file.getvalue()


class Deadly(Quick):
    """Photographs that a worker does not survive, as one that writes to a full disk."""

    def read(self, place):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_told_with_what_may_have_killed_it(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"was killed: either memory is full, or .* GB free; free some space, or set SPARS",
    ):
        load_or_decode(Deadly(), Storing(size=4, cache=tmp_path))
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


@pytest.fixture
def killed(tmp_path, environment):
    """A process that was killed while it decoded.

    Whoever else writes to its output is a worker of its.
    """
    command = [sys.executable, "-c", SLOW, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        process.kill()
        yield process


def test_workers_end_when_the_process_that_began_them_is_killed(killed):
    killed.communicate(timeout=20)  # until nobody is left who could write


def test_a_killed_process_leaves_the_lock_free_and_what_it_had_begun_is_removed(killed, tmp_path):
    killed.wait()
    (partial,) = tmp_path.glob(".*.partial")
    with next(tmp_path.glob("*.lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert load_or_decode(Quick(), Storing(size=4, cache=tmp_path)).images[
        :, 0, 0, 0
    ].tolist() == list(range(20))
    assert not partial.exists()
    assert not list(tmp_path.glob(".*"))
