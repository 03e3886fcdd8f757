"""The page of a run is made from what lies in its folder."""

import dataclasses
import shutil

import pytest

from sparsegate_lab.methods import Dense
from sparsegate_lab.record import Record
from sparsegate_lab.report import make_page
from sparsegate_lab.train import train


def test_the_page_of_a_lenet5_is_one_small_file_with_the_network_in_it(sparse_run):
    path = make_page(sparse_run)
    page = path.read_text()
    assert path == sparse_run / "report.html"
    assert path.stat().st_size < 1_500_000
    assert 'id="data-network"' in page
    assert "&lt;b&gt;digits&lt;/b&gt;" in page
    assert f"{Record.load(sparse_run / 'record.json').kept:,}" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_dense_run_in_the_same_folder_is_the_baseline(small, digits, sparse_run, tmp_path):
    folder = shutil.copytree(sparse_run, tmp_path / sparse_run.name)
    assert (
        f"sparsegate train lenet5 --method dense --data {digits} --epochs 4"
        in make_page(folder).read_text()
    )
    train(small(method=Dense(), epochs=1), folder=tmp_path)  # of another model
    assert "There is no dense run" in make_page(folder).read_text()
    dense = train(small(model="lenet5", method=Dense(), epochs=1, lr=0.05), folder=tmp_path)
    page = make_page(folder, tmp_path / "other.html").read_text()
    assert f"The dense run is {dense.name}" in page
    assert "epochs (1 there, 4 here)" in page
    assert "Against the dense" not in make_page(tmp_path / dense.name).read_text()


def test_a_network_with_many_weights_has_a_page_without_a_pad(small, tmp_path):
    record = train(small(epochs=1), folder=tmp_path)
    page = make_page(tmp_path / record.name).read_text()
    assert 'id="pad"' not in page
    assert "Networks of up to 25,000 weights run in their page" in page


def test_a_run_that_packed_nothing_says_what_its_file_would_take(sparse_run, tmp_path):
    folder = shutil.copytree(sparse_run, tmp_path / "run")
    packed = folder / "network.sparse.safetensors"
    size = packed.stat().st_size
    for path in (packed, folder / "network.sg"):
        path.unlink()
    assert f'<td class="n">{size:,}</td>' in make_page(folder).read_text()


def test_data_or_network_that_are_gone_leave_a_page_that_says_so(sparse_run, tmp_path, monkeypatch):
    folder = shutil.copytree(sparse_run, tmp_path / "run")
    record = Record.load(folder / "record.json")
    elsewhere = {**record.run, "data": "nowhere/at/all"}
    dataclasses.replace(record, run=elsewhere).save(folder / "record.json")
    assert (
        "does not run in its page: no data folder at nowhere/at/all"
        in make_page(folder).read_text()
    )
    (folder / "network.safetensors").unlink()
    assert "no longer next to the record" in make_page(folder).read_text()


def test_a_page_says_the_names_of_the_classes(sparse_run, digits, tmp_path):
    folder, data = (
        shutil.copytree(source, tmp_path / name)
        for source, name in ((sparse_run, "run"), (digits, "digits"))
    )
    names = [f"cloth {letter}" for letter in "abcdefghij"]
    (data / "classes.txt").write_text("\n".join(names))
    record = Record.load(folder / "record.json")
    dataclasses.replace(record, run={**record.run, "data": str(data)}).save(folder / "record.json")
    page = make_page(folder).read_text()
    assert all(name in page for name in names)


def test_a_folder_without_a_record_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"not the folder of a run that has ended: it has no record\.json"
    ):
        make_page(tmp_path)
