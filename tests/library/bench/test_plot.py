"""The plot of a comparison of speeds."""

import sys

import pytest

from sparsegate.bench import Speed, Timing, plot_speed

SPEED = Speed(
    "lenet5",
    "",
    {},
    {},
    tuple(
        Timing(
            batch,
            threads,
            {"torch eager": 4.0 * batch, "openvino": 2.0 * batch, "sparsegate": 0.1 * batch},
        )
        for threads in (1, 2)
        for batch in (1, 16)
    ),
)


def test_the_plot_lies_beside_the_record_as_svg_and_png(tmp_path):
    pytest.importorskip("matplotlib")
    svg, png = plot_speed(SPEED, tmp_path / "speed.json")
    assert [svg.name, png.name] == ["speed.svg", "speed.png"]
    assert "<svg" in svg.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert plot_speed(SPEED, tmp_path / "speed.json") == []
    assert list(tmp_path.iterdir()) == []
