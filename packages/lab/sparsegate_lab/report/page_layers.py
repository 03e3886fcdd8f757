"""The part of a page on layers: what each one keeps, and its share of the file."""

from __future__ import annotations

from sparsegate.web import Html, element, section
from sparsegate_lab.record import Layer, Record

from .html_table import Cell, Head, bar, html_table, stacked
from .network_view import NetworkView, TensorBits

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
