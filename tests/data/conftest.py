"""A made-up folder of photographs, laid out as ImageNet is."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def photographs(tmp_path, monkeypatch) -> Path:
    """Two classes, red and blue: twelve images each to train on, three to test; sizes and file types vary."""
    monkeypatch.setenv("SPARSEGATE_CACHE", str(tmp_path / "cache"))
    folder, draw = tmp_path / "photographs", np.random.default_rng(0)
    for split, count in (("train", 12), ("val", 3)):
        for channel, name in ((0, "red"), (2, "blue")):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.zeros((20 + number, 26 - number, 3), np.uint8)
                pixels[..., channel] = 100 + 10 * number + draw.integers(0, 3)
                ending = "png" if number % 2 else "JPEG"
                Image.fromarray(pixels).save(folder / split / name / f"{number:02}.{ending}", quality=95)
    return folder
