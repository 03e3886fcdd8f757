"""One HTML file with everything in it, which loads nothing from the internet."""

from __future__ import annotations

import html
import json
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from .element import Html, join

UNSAFE = {
    ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"
}  # nothing ends a script early


def document(title: str, *body: Html, scripts: tuple[str, ...], code: str = "") -> str:
    """The whole file: styles, the body, and scripts of assets/ by name, in one scope.

    Args:
        title: the name of the page.
        body: its elements.
        scripts: the names of scripts, which run in this order.
        code: JavaScript that compiles WebAssembly and runs before the last script; the page's
            policy then allows it.

    """
    texts = [asset(f"{name}.js") for name in ("theme", *scripts)]
    return Template(asset("document.html")).substitute(
        title=html.escape(title),
        styles=asset("page.css"),
        body=join(body).text,
        scripts="\n".join([*texts[:-1], code, texts[-1]] if code else texts),
        more=" 'wasm-unsafe-eval'" if code else "",
    )


def data_block(name: str, value: Any) -> Html:
    r"""Plain values for the scripts, by name, as JSON that no browser takes for anything else.

    >>> print(data_block("run", "</script>").text)
    <script type="application/json" id="data-run">"\u003c/script\u003e"</script>
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).translate(UNSAFE)
    return Html(f'<script type="application/json" id="data-{html.escape(name)}">{text}</script>')


@cache
def asset(name: str) -> str:
    """A file of assets/."""
    return resources.files("sparsegate.web").joinpath("assets", name).read_text("utf-8")


@cache
def of_package(name: str) -> bytes:
    """A file of the npm package, in npm/."""
    return resources.files("sparsegate.web").joinpath("npm", name).read_bytes()
