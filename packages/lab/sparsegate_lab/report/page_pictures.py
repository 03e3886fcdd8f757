"""The part of a page with pictures: the first filters, and every layer's mask."""

from __future__ import annotations

import base64
from typing import Any

from sparsegate.web import Html, data_block, element, section

from .network_view import Filters, Mask, NetworkView

FULL = 400  # columns from which on a picture needs the whole width


def pictures_section(view: NetworkView) -> Html | None:
    """Returns the pictures, painted by a script from packed bits; nothing if there are none."""
    if not view.masks:
        return None
    return section(
        "pictures",
        "What is left, in pictures",
        element(
            "p",
            "A dot is a weight that was kept: rows are a layer's outputs, columns its inputs.",
            class_="quiet",
        ),
        _filters(view.filters) if view.filters else None,
        element(
            "div", *(_mask(place, mask) for place, mask in enumerate(view.masks)), class_="masks"
        ),
        data_block("masks", [_plain(mask) for mask in view.masks]),
        data_block("filters", _plain_filters(view.filters) if view.filters else None),
    )


def _filters(filters: Filters) -> Html:
    alive = sum(any(each) for each in filters.values)
    about = (
        f"The {len(filters.values)} filters of {filters.name}, of which {alive} have a weight left"
    )
    pictures = (
        element(
            "canvas",
            width=filters.width,
            height=filters.height,
            data_filter=place,
            aria_hidden="true",
        )
        for place in range(len(filters.values))
    )
    words = element("h3", f"Filters of {filters.name}")
    more = element(
        "p",
        f"{alive} of {len(filters.values)} alive; blue is below zero, orange above.",
        class_="quiet",
    )
    return element(
        "div",
        words,
        more,
        element("div", *pictures, class_="filters", role="img", aria_label=about),
    )


def _mask(place: int, mask: Mask) -> Html:
    words = f"{mask.kept:,} of {mask.total:,} kept"
    about = f"Mask of {mask.name}: {mask.rows} rows, {mask.columns} columns, {words}"
    coarse = f"; a dot is a block of {mask.block} x {mask.block}" if mask.block > 1 else ""
    canvas = element("canvas", role="img", aria_label=about, data_mask=place)
    title = element("figcaption", mask.name, element("span", words + coarse, class_="quiet"))
    return element("figure", title, canvas, class_="full" if mask.columns > FULL else None)


def _plain(mask: Mask) -> dict[str, Any]:
    across, up = -(-mask.columns // mask.block), -(-mask.rows // mask.block)
    shade = base64.b64encode(mask.shade).decode()
    return {"rows": up, "columns": across, "shade": shade, "coarse": mask.block > 1}


def _plain_filters(filters: Filters) -> list[list[float]]:
    return [[round(each, 4) for each in one] for one in filters.values]
