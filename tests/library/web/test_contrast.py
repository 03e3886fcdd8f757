"""The colors of pages are told apart by everybody: WCAG's ratios, in both themes."""

import re
from importlib.resources import files

import pytest

CSS = files("sparsegate.web").joinpath("assets/page.css").read_text()
LIGHT, PREFERRED, CHOSEN = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root[^{]*\{([^}]*)\}", CSS)
)
GROUNDS = ("paper", "card", "sunk")
TEXT = ("ink", "quiet", "open", "values")
SHAPES = ("open", "shut", "glow", "faint", "values", "indices", "other", "focus")
both_themes = pytest.mark.parametrize("colours", [LIGHT, CHOSEN], ids=["light", "dark"])


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_21_to_1():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_dark_is_the_same_whether_it_is_preferred_or_chosen():
    assert PREFERRED == CHOSEN
    assert set(LIGHT) == set(CHOSEN)


@both_themes
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("text", TEXT)
def test_text_stands_out_from_what_it_stands_on(colours, text, ground):
    assert contrast(colours[text], colours[ground]) >= 4.5


@both_themes
def test_a_lit_units_number_stands_out_from_it(colours):
    assert contrast(colours["on-glow"], colours["glow"]) >= 4.5


@both_themes
@pytest.mark.parametrize("ground", ["card", "sunk"])
@pytest.mark.parametrize("shape", SHAPES)
def test_bars_curves_and_frames_stand_out_from_cards(colours, shape, ground):
    assert contrast(colours[shape], colours[ground]) >= 3
