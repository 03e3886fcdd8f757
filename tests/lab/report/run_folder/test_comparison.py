"""Folders, records and studies side by side."""

from pathlib import Path

import pytest

from sparsegate_lab.report import make_comparison

RESULTS = Path(__file__).parents[4] / "results"


def test_a_study_and_a_run_stand_side_by_side(sparse_run, tmp_path):
    path = make_comparison([sparse_run, RESULTS / "lenet5-demo.json"], tmp_path / "page.html")
    page = path.read_text()
    assert "4 runs side by side" in page
    assert sparse_run.name in page


def test_one_run_or_no_record_is_refused(sparse_run, tmp_path):
    with pytest.raises(ValueError, match="a comparison needs at least two runs, got 1"):
        make_comparison([sparse_run], tmp_path / "page.html")
    with pytest.raises(ValueError, match="neither the folder of a run"):
        make_comparison([tmp_path, sparse_run], tmp_path / "page.html")
    (tmp_path / "other.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"other\.json is not the record of a run"):
        make_comparison([tmp_path / "other.json", sparse_run], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
