"""A run in a notebook is one block that changes as the run proceeds."""

import re
import shlex
import sys

import pytest

from sparsegate_lab.cli.train import parse
from sparsegate_lab.train import NotebookProgress, train
from sparsegate_lab.train.notebook_progress import curve

IPython = pytest.importorskip("IPython")


@pytest.fixture
def shown(monkeypatch):
    """What a real kernel's display hook would send: (what, is it an update, page)."""
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    shell, sent = InteractiveShell.instance(), []
    monkeypatch.setattr(
        shell.display_pub,
        "publish",
        lambda data, metadata=None, *, update=False, **_: sent.append((data, update)),
    )
    yield sent
    InteractiveShell.clear_instance()


def test_a_run_shows_its_progress_in_one_block(small, tmp_path, shown):
    record = train(small(), folder=tmp_path, watch=NotebookProgress())
    pages = [data["text/html"] for data, _ in shown]
    assert [update for _, update in shown] == [False] + [True] * (len(shown) - 1)
    assert "step 0 of 18" in pages[0]
    last = pages[-1]
    assert f"{record.test:.2f} % of the test images" in last
    assert re.findall(r"<td[^>]*>(\d+)</td><td[^>]*>([\d.]+)", last) == [
        (str(epoch.epoch), f"{epoch.loss:.4f}") for epoch in record.epochs
    ]
    assert last.count("<polyline") == 3
    assert "note: " in last  # so short a training closes no gate


def test_names_of_the_user_are_text_and_not_html(shown, small, tmp_path):
    progress = NotebookProgress()
    progress.began(small(data="<b>data</b>"), tmp_path, 0, 1, 1)
    assert "on &lt;b&gt;data&lt;/b&gt;" in shown[0][0]["text/html"]


def test_a_terminal_prints_one_line(shown, small, tmp_path):
    NotebookProgress().began(small(), tmp_path, 3, 18, 1)
    assert re.fullmatch(r"lenet300 on .*: step 3 of 18", shown[0][0]["text/plain"])


def test_a_curve_goes_up_where_its_values_do():
    points = re.search(r'points="([^"]+)"', curve("kept", [1.0, 3.0]).text)[1]
    (_, first), (_, last) = (point.split(",") for point in points.split())
    assert float(last) < float(first)  # SVG counts from the top
    assert "kept: 3" in curve("kept", [1.0, 3.0]).text
    assert curve("kept", [2.0, 2.0]).text.count("polyline") == 1
    assert "polyline" not in curve("kept", []).text


def test_without_ipython_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    with pytest.raises(ImportError, match="sparsegate train"):
        NotebookProgress()


def test_the_record_of_a_notebook_has_a_command_that_trains_the_same(small, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/python/ipykernel_launcher.py", "-f", "kernel.json"])
    run = small(seed=3)
    verb, *words = shlex.split(train(run, folder=tmp_path).command)[1:]
    assert verb == "train"
    assert parse(words).run == run
