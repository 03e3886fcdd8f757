"""A document has everything in it, and colors that can be read."""

import json
import re
from importlib import resources

import pytest

from sparsegate.web import data_block, document, element

STYLES = resources.files("sparsegate.web").joinpath("assets", "page.css").read_text()
HOSTILE = "</script><script>alert(1)</script> $body \u2028"


def themes():
    light = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", STYLES.split("@media")[0]))
    dark = dict(
        re.findall(
            r"--([a-z-]+): (#[0-9a-f]{6})",
            STYLES.split(':root[data-theme="dark"]')[1].split("}")[0],
        )
    )
    return {"light": light, "dark": light | dark}


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_data_cannot_end_its_script_and_comes_back_as_it_was():
    text = data_block("run", {"name": HOSTILE}).text
    inside = text.removeprefix('<script type="application/json" id="data-run">').removesuffix(
        "</script>"
    )
    assert "<" not in inside
    assert json.loads(inside) == {"name": HOSTILE}


def test_a_title_is_text_and_placeholders_in_it_are_not_filled():
    page = document(HOSTILE, element("p", HOSTILE), scripts=())
    assert "<script>alert" not in page
    assert page.count("$body") == 2


def test_a_document_asks_nothing_of_any_network():
    page = document("title", element("p", "text"), scripts=("bytes", "decode", "network"))
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|@import|url\(", page)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ground", ["card", "paper", "sunk"])
@pytest.mark.parametrize("text", ["ink", "quiet", "open", "values", "indices"])
def test_text_has_a_contrast_of_at_least_four_and_a_half(theme, ground, text):
    colours = themes()[theme]
    one, other = sorted((luminance(colours[text]), luminance(colours[ground])))
    assert (other + 0.05) / (one + 0.05) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_on_lit_units_can_be_read(theme):
    one, other = sorted(luminance(themes()[theme][name]) for name in ("glow", "on-glow"))
    assert (other + 0.05) / (one + 0.05) >= 4.5


def test_the_dark_colours_are_the_same_by_system_and_by_button():
    system = STYLES.split(':not([data-theme="light"]) {')[1].split("}")[0]
    button = STYLES.split(':root[data-theme="dark"] {')[1].split("}")[0]
    assert system.split() == button.split()
