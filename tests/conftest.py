"""Small folders of digits and of photographs, runs on digits, and Python in a process of its own."""

import functools
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sparsegate_lab.data import Split, mnist
from sparsegate_lab.train import Run


@pytest.fixture(scope="session")
def as_idx() -> Callable[[torch.Tensor], bytes]:
    """The idx file of an array of bytes."""

    def encode(values: torch.Tensor) -> bytes:
        header = bytes((0, 0, 0x08, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
        return header + values.to(torch.uint8).numpy().tobytes()

    return encode


@pytest.fixture(scope="session")
def digits(
    tmp_path_factory: pytest.TempPathFactory, as_idx: Callable[[torch.Tensor], bytes]
) -> Path:
    """1,000 training and 200 test digits of MNIST as plain idx files.

    Do not change them, copy them.
    """
    folder = tmp_path_factory.mktemp("digits")
    _write(folder, "train", mnist().train.part(0, 1000), as_idx)
    _write(folder, "t10k", mnist().test.part(0, 200), as_idx)
    return folder


@pytest.fixture(scope="session")
def small(digits: Path) -> Callable[..., Run]:
    """Runs that take a fraction of a second: two epochs of nine steps, changed by keyword."""
    return functools.partial(Run, model="lenet300", data=str(digits), epochs=2, batch_size=100)


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of processes that tests start: one thread, as the tests themselves."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def python(environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python with these words in a process of its own, to its end."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return run


@pytest.fixture
def photographs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder laid out as ImageNet: twelve blue and twelve red images to train on, three each to test."""
    monkeypatch.setenv("SPARSEGATE_CACHE", str(tmp_path / "cache"))
    folder, draw = tmp_path / "photographs", np.random.default_rng(0)
    for split, count in (("train", 12), ("val", 3)):
        for channel, name in ((0, "red"), (2, "blue")):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.zeros((20 + number, 26 - number, 3), np.uint8)
                pixels[..., channel] = 100 + 10 * number + draw.integers(0, 3)
                ending = "png" if number % 2 else "JPEG"
                Image.fromarray(pixels).save(
                    folder / split / name / f"{number:02}.{ending}", quality=95
                )
    return folder


def _write(folder: Path, stem: str, split: Split, as_idx: Callable[[torch.Tensor], bytes]) -> None:
    (folder / f"{stem}-images-idx3-ubyte").write_bytes(as_idx(split.images[:, 0]))
    (folder / f"{stem}-labels-idx1-ubyte").write_bytes(as_idx(split.labels))
