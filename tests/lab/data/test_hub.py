"""Image datasets of the hub, by one that is made here; needs the package datasets."""

import numpy as np
import pytest

from sparsegate_lab.data import Storing, load_data
from sparsegate_lab.data.hub import read_hub

datasets = pytest.importorskip("datasets")
FEATURES = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["dark", "light"])}


def write(folder, split, count, features=FEATURES):
    """A file of a split: images as bright as their numbers."""
    from PIL import Image

    images = [
        Image.fromarray(np.full((9, 12, 3), 10 * number, np.uint8)) for number in range(count)
    ]
    columns = {
        name: images if name == "image" else [number % 2 for number in range(count)]
        for name in features
    }
    rows = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    rows.to_parquet(str(folder / f"{split}.parquet"))


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSEGATE_CACHE", str(tmp_path / "squares"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "made"
    folder.mkdir()
    write(folder, "train", 22)
    return folder


def test_train_is_divided_and_test_is_the_test_set(made):
    write(made, "test", 4)
    for _ in range(2):  # decoded, and from the cache
        data = load_data(f"hub:{made}", Storing(size=8))
        assert (len(data.train), len(data.validation), len(data.test)) == (20, 2, 4)
        assert data.test.images[:, 0, 0, 0].tolist() == [0, 10, 20, 30]
        assert data.test.labels.tolist() == [0, 1, 0, 1]
        assert data.resizable


def test_a_set_without_a_test_split_or_a_class_is_refused(made):
    with pytest.raises(ValueError, match="has the splits train; wanted train and one of test"):
        read_hub(str(made))
    write(made, "test", 4, {"image": datasets.Image(), "label": datasets.Value("int64")})
    write(made, "train", 4, {"image": datasets.Image(), "label": datasets.Value("int64")})
    with pytest.raises(
        ValueError, match="wanted one of type Image and just one of type ClassLabel"
    ):
        read_hub(str(made))
