"""HTML elements that are safe by construction: text is escaped, elements are not."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

VOID = frozenset(("br", "circle", "col", "hr", "input", "line", "meta", "path", "polyline", "rect"))


@dataclass(frozen=True)
class Html:
    """Text that is HTML already; made by `element`, never from what a user wrote."""

    text: str


Child: TypeAlias = "Html | str | None"


def element(tag: str, *children: Child, **attributes: str | float | int | bool | None) -> Html:
    """One element with its children; strings are escaped, and None is nothing.

    >>> element("p", "1 < 2", element("b", "!"), class_="note", data_place=3, hidden=False).text
    '<p class="note" data-place="3">1 &lt; 2<b>!</b></p>'

    In names of attributes `_` becomes `-`, and a trailing `_` is dropped. True writes an attribute
    without a value.
    """
    inside = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in VOID and not children:
        return Html(
            f"<{tag}{inside}>"
            if tag in ("br", "col", "hr", "input", "meta")
            else f"<{tag}{inside}/>"
        )
    return Html(f"<{tag}{inside}>{join(children).text}</{tag}>")


def section(name: str, title: str, *children: Child) -> Html:
    r"""A card of a page: its heading and what is under it.

    >>> print(section("runs", "The runs", "None yet.").text.replace("><", ">\n<"))
    <section class="card" id="runs" aria-labelledby="runs-title">
    <h2 id="runs-title">The runs</h2>None yet.</section>
    """
    label = f"{name}-title"
    heading = element("h2", title, id=label)
    return element("section", heading, *children, class_="card", id=name, aria_labelledby=label)


def join(children: Iterable[Child]) -> Html:
    """Children one after the other, in no element.

    >>> join(["a & b", None, Html("<hr>")]).text
    'a &amp; b<hr>'
    """
    return Html("".join(_text(child) for child in children))


def _text(child: Child) -> str:
    if child is None:
        return ""
    return child.text if isinstance(child, Html) else html.escape(child)


def _attribute(name: str, value: str | float | int | bool | None) -> str:
    key = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f" {key}" if value is True else f' {key}="{html.escape(text)}"'
