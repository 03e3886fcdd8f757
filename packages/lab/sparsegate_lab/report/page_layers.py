"""The parts of a page on layers: what each one keeps, the first filters, and every mask."""

from __future__ import annotations

import base64
from typing import Any

from sparsegate.web import Html, data_block, element, section
from sparsegate_lab.record import Layer, Record

from .html_table import Cell, Head, bar, html_table, stacked
from .network_view import Filters, Mask, NetworkView, TensorBits

HEADS = [
    Head("layer"),
    Head("shape", "wide"),
    Head("kept", "n"),
    Head("of its weights", "bar"),
    Head("", "n"),
    Head("of the file's bits", "bar"),
]


def layers_section(record: Record, view: NetworkView) -> Html:
    """Returns a row for every weight, with bars."""
    bits = {each.name: each for each in view.bits}
    most = max((each.values + each.indices for each in view.bits), default=1)
    rows = [_row(layer, bits.get(layer.name), most) for layer in record.layers]
    share = f"{100 * record.kept / record.total:.2f} %"
    foot = ("all", "", f"{record.kept:,}", bar(record.kept / record.total), share, "")
    legend = element(
        "ul",
        *(
            element("li", element("i", class_=kind), words)
            for kind, words in (("", "weights kept"), *LEGEND)
        ),
        class_="legend",
    )
    return section(
        "layers",
        "Layers",
        element(
            "p", "What is left of every layer, and which part of the file it takes.", class_="quiet"
        ),
        legend,
        html_table("Layers: weights kept and bits", HEADS, rows, foot),
    )


LEGEND = (
    ("values", "bits of the values of weights"),
    ("indices", "bits of the positions of weights"),
)


def _row(layer: Layer, bits: TensorBits | None, most: int) -> tuple[Cell, ...]:
    parts = (
        ((bits.values / most, "values"), (bits.indices / most, "indices"))
        if bits
        else ((0.0, "values"),)
    )
    return (
        layer.name.removesuffix(".weight"),
        " x ".join(map(str, layer.shape)),
        f"{layer.kept:,}",
        bar(layer.kept / layer.total),
        f"{100 * layer.kept / layer.total:.2f} %" if layer.kept else "closed",
        stacked(*parts),
    )


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
