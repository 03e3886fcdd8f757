"""The page of a run says what its record says, and takes no word of it for HTML."""

import base64
import dataclasses
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from sparsegate_lab.record import Layer
from sparsegate_lab.report import Baseline, Filters, Mask, NetworkView, TensorBits, run_page
from sparsegate_lab.report.network_view import Mistakes, WrongImage
from sparsegate_lab.report.page_mistakes import png

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&"
NOTHING = NetworkView((), None, (), 0, {}, None)
VIEW = NetworkView(
    masks=(Mask("fc1", 10, 10, 5, 100, bytes(13)),),
    filters=Filters("conv1", 2, 2, ((0.5, 0.0, 0.0, -1.0), (0.0, 0.0, 0.0, 0.0))),
    bits=(TensorBits("fc1.weight", (10, 10), "gaps", 5, 160, 40, 26.2, 3200),),
    header=800,
    files={"dense": 1000, ".sparse.safetensors": 125, ".sg": 50},
    browser=None,
    no_browser="because",
)
BASELINE = Baseline(
    "sparsegate train toy --method dense", "toy-dense", 99.0, 120, 2.0, {"epochs": (4, 2)}
)


def block(page, name):
    (found,) = re.findall(rf'<script type="application/json" id="data-{name}">(.*?)</script>', page)
    return json.loads(found)


def words(page):
    return re.sub(
        r"\s+",
        " ",
        re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)),
    )


def test_the_page_says_what_the_record_and_the_network_are(record):
    said = words(run_page(record, VIEW, BASELINE))
    for part in (
        "98.25 % with 6 of 120 weights",
        "20.0 x",
        "toy-0",
        "sparsegate train toy",
        "because",
    ):
        assert part in said
    for part in (
        "-0.75 points",
        "epochs (4 there, 2 here)",
        "20.0x fewer",
        "1,000 bits: 125 bytes",
        "1 of 2 alive",
    ):
        assert part in said


def test_the_slider_stops_at_the_start_and_at_every_epoch(record):
    page = run_page(record, VIEW, BASELINE)
    moments = block(page, "moments")
    assert [moment["epoch"] for moment in moments] == [0, 1, 2]
    assert [moment["gates"] for moment in moments] == [
        list(gates) for gates in (record.first_gates, *(epoch.gates for epoch in record.epochs))
    ]
    assert 'max="2" value="2"' in page
    assert moments[1]["accuracy"] > moments[2]["accuracy"]  # pixels count from the top
    assert moments[1]["kept"] < moments[2]["kept"]
    assert 'id="chart-loss"' in page
    assert moments[1]["loss"] != moments[2]["loss"]


def test_the_weights_of_every_layer_are_shown_for_every_epoch(record):
    assert "Weights kept in every layer" not in run_page(record, VIEW, BASELINE)
    counts = ({"fc1.weight": 1234, "<b>": 20}, {"fc1.weight": 5, "<b>": 1})
    epochs = tuple(
        dataclasses.replace(epoch, layers=each)
        for epoch, each in zip(record.epochs, counts, strict=True)
    )
    page = run_page(dataclasses.replace(record, epochs=epochs), VIEW, BASELINE)
    table = page[page.index("Weights kept in every layer") :]
    assert "&lt;b&gt;" in table
    assert "1,234" in table
    assert "<b>" not in table


def test_long_flags_that_repeat_a_run_are_folded_away(record):
    flags = "--target.path 1 2 3 repeats the run closely"
    page = run_page(dataclasses.replace(record, notes=("a remark", flags)), VIEW, BASELINE)
    assert '<p class="note">a remark</p>' in page
    (folded,) = re.findall(r"<details.*?</details>", page[page.index('id="settings"') :], re.DOTALL)
    assert flags in folded


def test_no_string_of_a_run_is_taken_for_html(record):
    layers = (Layer(f"{HOSTILE}.weight", (10, 12), 120, 6),)
    run = {
        "model": HOSTILE,
        "data": HOSTILE,
        "method": {"name": HOSTILE, HOSTILE: HOSTILE},
        "epochs": 2,
    }
    named = {"name": HOSTILE, "command": HOSTILE, "run": run, "layers": layers, "notes": (HOSTILE,)}
    hostile = dataclasses.replace(
        record, **named, machine={HOSTILE: HOSTILE}, versions={"sparsegate": HOSTILE}
    )
    view = dataclasses.replace(
        VIEW,
        masks=(dataclasses.replace(VIEW.masks[0], name=HOSTILE),),
        filters=dataclasses.replace(VIEW.filters, name=HOSTILE),
        bits=(dataclasses.replace(VIEW.bits[0], name=HOSTILE, format=HOSTILE),),
        files={HOSTILE: 1},
        no_browser=HOSTILE,
    )
    for baseline in (
        Baseline(HOSTILE),
        Baseline("", HOSTILE, 99.0, 1, 1.0, {HOSTILE: (HOSTILE, HOSTILE)}),
    ):
        page = run_page(hostile, view, baseline)
        assert "<img" not in page
        assert page.count("onerror=alert(1)&gt;&quot;&#x27;&amp;") > 10
        assert page.count("<script") == run_page(record, VIEW, BASELINE).count("<script")


def test_without_a_dense_run_the_page_says_what_makes_one(record):
    assert "sparsegate train toy --method dense" in words(
        run_page(record, VIEW, Baseline(BASELINE.command))
    )
    assert "Against the dense network" not in run_page(record, VIEW, None)


def test_a_record_from_before_gates_were_counted_has_a_page(record):
    old = dataclasses.replace(
        record,
        first_gates=(),
        epochs=tuple(dataclasses.replace(epoch, gates=()) for epoch in record.epochs),
    )
    page = run_page(old, NOTHING, None)
    assert "before gates were counted" in page
    assert [moment["epoch"] for moment in block(page, "moments")] == [1, 2]


@pytest.mark.parametrize("kept", [0, 100])
def test_a_layer_that_closed_and_one_that_is_whole_have_bars(kept, record):
    layers = (Layer("fc1.weight", (10, 10), 100, kept),)
    page = run_page(dataclasses.replace(record, layers=layers), VIEW, None)
    assert ("closed" in words(page).split("Layers", 1)[1]) == (kept == 0)


def test_mistakes_are_a_matrix_and_pictures(record):
    counts = ((8, 2, 0), (0, 10, 0), (3, 0, 7))
    gray = WrongImage("bag", HOSTILE, 2, 3, bytes(range(6)))
    colors = WrongImage("shirt", "bag", 1, 2, bytes(range(6)))
    mistakes = Mistakes(("bag", "shirt", HOSTILE), counts, (gray, colors))
    page = run_page(record, dataclasses.replace(VIEW, mistakes=mistakes), BASELINE)
    said = words(page)
    assert "5 of 30 test images are taken for another class. Most often, 3 times," in said
    assert "shirt, taken for bag" in said
    assert HOSTILE not in page
    assert page.count('src="data:image/png;base64,') == 2


@pytest.mark.parametrize("colors", [1, 3])
def test_a_picture_has_the_pixels_of_the_image(colors, tmp_path):
    pixels = np.arange(2 * 5 * colors, dtype=np.uint8).reshape(2, 5, colors)
    address = png(WrongImage("a", "b", 2, 5, pixels.tobytes()))
    content = base64.b64decode(address.partition(",")[2])
    found = np.asarray(Image.open(io.BytesIO(content)))
    assert np.array_equal(found.reshape(2, 5, colors), pixels)


def test_without_mistakes_there_is_no_section(record):
    assert "Mistakes" not in words(run_page(record, VIEW, BASELINE))
