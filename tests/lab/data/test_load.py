"""A name or a path finds its data, or a message that says what would be data."""

import pytest

from sparsegate_lab.data import load_data


@pytest.mark.parametrize("files", [(), ("notes.txt", "train.parquet")])
def test_a_folder_without_data_is_told_everything_that_would_be(tmp_path, files):
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(
        ValueError,
        match=r"has no data that is known: neither train and val .* CIFAR-10 .* idx files",
    ):
        load_data(str(tmp_path))


def test_a_folder_with_some_idx_files_is_told_which_is_missing(tmp_path):
    (tmp_path / "train-labels-idx1-ubyte").touch()
    with pytest.raises(ValueError, match="has no train-images-idx3-ubyte"):
        load_data(str(tmp_path))


def test_a_folder_that_is_not_there_is_told_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSEGATE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="put cifar10 there, set SPARSEGATE_DATA"):
        load_data("cifar10")


def test_a_path_to_nothing_is_told_that_there_is_no_such_folder(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"no data folder at .*/gone: there is no such folder; wanted .* photographs",
    ):
        load_data(str(tmp_path / "gone"))


def test_a_path_to_a_file_is_told_that_it_is_one(tmp_path):
    (tmp_path / "photographs.tar").touch()
    with pytest.raises(
        ValueError, match=r"no data folder at .*/photographs.tar: it is a file; give the folder"
    ):
        load_data(str(tmp_path / "photographs.tar"))
