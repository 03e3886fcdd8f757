"""The part of a page that shows how the file's bits are used."""

from __future__ import annotations

from sparsegate.web import Html, element, section

from .html_table import Cell, Head, bar, html_table, stacked
from .network_view import NetworkView, TensorBits

HEADS = [
    Head("tensor"),
    Head("format", "wide"),
    Head("kept", "n"),
    Head("values", "n"),
    Head("indices", "n"),
    Head("least for indices", "n wide"),
    Head("dense", "n wide"),
]
KINDS = (("values", "values"), ("indices", "indices"), ("other", "header"))


def bits_section(view: NetworkView) -> Html | None:
    """Returns the file as a bar, the sizes of all files, and a row for every tensor."""
    if not view.bits:
        return None
    parts = {
        "values": sum(each.values for each in view.bits),
        "indices": sum(each.indices for each in view.bits),
        "other": view.header,
    }
    whole = sum(parts.values())
    legend = (
        element("li", element("i", class_=kind), f"{name} {100 * parts[kind] / whole:.0f} %")
        for kind, name in KINDS
    )
    sums = ("whole file", "", "", f"{parts['values']:,}", f"{parts['indices']:,}", "", _dense(view))
    header = ("header", "", "", f"{view.header:,}", "", "", "")
    return section(
        "bits",
        "Where every bit goes",
        element(
            "p",
            f"network.sparse.safetensors has {whole:,} bits: {whole // 8:,} bytes.",
            class_="quiet",
        ),
        element(
            "div", stacked(*((parts[kind] / whole, kind) for kind, _ in KINDS)), class_="sizes"
        ),
        element("ul", *legend, class_="legend", style="margin-top:10px"),
        html_table(
            "Bits of every tensor", HEADS, [*(_row(each) for each in view.bits), header], sums
        ),
        element("h3", "The same network as other files", style="margin-top:22px"),
        _sizes(view.files),
    )


def _dense(view: NetworkView) -> str:
    return f"{sum(each.dense for each in view.bits):,}"


def _row(bits: TensorBits) -> tuple[Cell, ...]:
    return (
        bits.name,
        bits.format,
        f"{bits.kept:,}",
        f"{bits.values:,}",
        f"{bits.indices:,}",
        f"{bits.bound:,.0f}",
        f"{bits.dense:,}",
    )


def _sizes(files: dict[str, int]) -> Html:
    most = max(files.values())
    rows = [
        (name, f"{size:,}", bar(size / most, "values"), f"{most / size:,.1f}x")
        for name, size in files.items()
    ]
    heads = [Head("file"), Head("bytes", "n"), Head("", "bar wide"), Head("smaller", "n")]
    return html_table("Sizes of the network's files", heads, rows)
