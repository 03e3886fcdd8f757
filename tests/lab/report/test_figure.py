"""Pictures as files."""

import sys

import pytest

from sparsegate_lab.report import save_figure


def draw(figure):
    figure.subplots().plot([0, 1], [1, 0])
    return True


def test_a_picture_is_an_svg_and_a_png(tmp_path):
    pytest.importorskip("matplotlib")
    svg, png = save_figure(draw, tmp_path / "line")
    assert [svg.name, png.name] == ["line.svg", "line.png"]
    assert "<svg" in svg.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_same_picture_is_the_same_file(tmp_path):
    pytest.importorskip("matplotlib")
    first, second = (save_figure(draw, tmp_path / name)[0] for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_nothing_is_written_where_nothing_was_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    assert save_figure(lambda figure: False, tmp_path / "line") == []
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert save_figure(draw, tmp_path / "line") == []
    assert list(tmp_path.iterdir()) == []
