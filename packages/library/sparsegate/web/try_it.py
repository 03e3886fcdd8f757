"""A pad to draw on, and a network that answers as one draws."""

from __future__ import annotations

from .browser_network import BrowserNetwork
from .document import data_block, document
from .element import Html, element, join, section

SCRIPTS = ("bytes", "decode", "network", "centre", "wires", "pad", "try_it")
PAD = 280  # pixels of the pad's side
HOW = "With the keyboard: arrows move the pen, space puts it down or lifts it, Delete clears."


def try_it_document(network: BrowserNetwork, title: str) -> str:
    """The network alone, as a file."""
    facts = (
        f"{network.num_weights:,} weights in {len(network.file):,} bytes, run by this page itself."
    )
    heading = element(
        "header", element("h1", title), element("p", facts, class_="lead"), class_="top"
    )
    return document(title, heading, element("main", try_it(network)), scripts=SCRIPTS)


def try_it(network: BrowserNetwork) -> Html:
    """The pad, the answer, and the picture of what connects them."""
    return section(
        "try",
        "Draw an image",
        element("div", _pad(), _answer(network), class_="try"),
        _samples(network),
        _wires(),
        data_block("network", network.to_json()),
    )


def _pad() -> Html:
    pad = element(
        "canvas",
        id="pad",
        width=PAD,
        height=PAD,
        tabindex=0,
        role="application",  # it takes the arrow keys, which an image would leave to the reader
        aria_label="A pad to draw on",
        aria_describedby="pad-how",
    )
    hint = element("span", "Draw here", class_="hint", id="pad-hint", aria_hidden="true")
    clear = element("button", "Clear", type="button", id="pad-clear")
    return element(
        "div",
        element("div", pad, hint, class_="pad"),
        element(
            "div", clear, element("span", "Network's view", class_="quiet"), _view(), class_="row"
        ),
        element("p", HOW, class_="hidden", id="pad-how"),
    )


def _view() -> Html:
    return element(
        "canvas",
        id="view",
        width=28,
        height=28,
        role="img",
        aria_label="The image that the network gets",
    )


def _answer(network: BrowserNetwork) -> Html:
    rows = [
        element(
            "li",
            element("span", name, class_="name"),
            element(
                "span",
                element("span", class_="fill", style="width:0%"),
                class_="track",
                aria_hidden="true",
            ),
            element("span", "", class_="share"),
        )
        for name in network.names
    ]
    says = element("p", "Nothing drawn yet.", id="says", role="status", aria_live="polite")
    return element(
        "div",
        says,
        element("ol", *rows, class_="chances", id="chances", aria_label="Probabilities"),
    )


def _samples(network: BrowserNetwork) -> Html:
    buttons = (
        element(
            "button",
            element("canvas", width=network.image[2], height=network.image[1], aria_hidden="true"),
            type="button",
            class_="sample",
            aria_label=f"Try image {place + 1}",
        )
        for place in range(len(network.samples))
    )
    words = element("span", "Or try one of the data's own:", class_="quiet", id="samples-title")
    return element(
        "div",
        words,
        *buttons,
        class_="samples",
        id="samples",
        role="group",
        aria_labelledby="samples-title",
    )


def _wires() -> Html:
    about = "The units of each layer and the weights between them, brighter where they carry more"
    words = "Every line is a weight that was kept; its brightness is weight times activation. "
    facts = element("p", words, element("span", "", id="wires-facts"), class_="quiet wider")
    return join((element("canvas", id="wires", role="img", aria_label=about), facts))
