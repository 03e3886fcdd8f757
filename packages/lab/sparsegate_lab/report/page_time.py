"""The part of a page on training: accuracy, kept weights and gates, with one slider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparsegate.web import Html, data_block, element, join, section
from sparsegate_lab.record import Record

from .html_table import Head, folded, html_table
from .line_chart import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    across,
    down,
    line_chart,
    marks,
    short,
)
from .scale import accuracies, counts, losses

HEADS = [
    Head("epoch"),
    *(Head(name, "n") for name in ("validation", "weights kept")),
    Head("loss", "n wide"),
]


def time_section(record: Record) -> Html:
    """Charts over the epochs."""
    moments = _moments(record)
    return section(
        "time",
        "How it went",
        element("p", "Move through training: the slider drives all charts.", class_="quiet"),
        _scrubber(moments),
        element(
            "div", _accuracy(record), _loss(record), _kept(record), _gates(record), class_="charts"
        ),
        folded(
            "All epochs as a table", html_table("Every epoch of training", HEADS, _rows(record))
        ),
        _layers(record),
        data_block("moments", moments),
    )


def _moments(record: Record) -> list[dict[str, Any]]:
    """Returns the slider's stops: the start, if gates were counted then, and every epoch."""
    epochs = [epoch.epoch for epoch in record.epochs]
    high, kept = accuracies([epoch.validation for epoch in record.epochs]), counts(_counts(record))
    loss = losses([epoch.loss for epoch in record.epochs])
    start = {
        "says": f"start: all {record.total:,} weights, initial gates",
        "gates": record.first_gates,
    }
    first = [{**start, "epoch": 0, "x": across(0, epochs)}] if record.first_gates else []
    return first + [
        {
            "epoch": epoch.epoch,
            "says": f"epoch {epoch.epoch}: {epoch.validation:.2f} % validation accuracy, "
            f"{epoch.kept:,} weights kept"
            + (f", {100 * epoch.undecided:.1f} % of gates undecided" if epoch.gates else ""),
            "x": across(epoch.epoch, epochs),
            "accuracy": round(down(high.share(epoch.validation)), 2),
            "loss": round(down(loss.share(epoch.loss)), 2),
            "kept": round(down(kept.share(epoch.kept)), 2),
            "gates": epoch.gates,
        }
        for epoch in record.epochs
    ]


def _counts(record: Record) -> list[int]:
    return [record.total, *(epoch.kept for epoch in record.epochs)]


def _scrubber(moments: list[dict[str, Any]]) -> Html:
    last = len(moments) - 1
    slider = element(
        "input",
        type="range",
        id="moment",
        min=0,
        max=last,
        value=last,
        step=1,
        aria_label="Epoch",
        autocomplete="off",
    )
    says = element("output", moments[-1]["says"], id="moment-says", for_="moment")
    return element(
        "div", element("button", "Play", type="button", id="play"), slider, says, class_="scrub"
    )


def _accuracy(record: Record) -> Html:
    values = [epoch.validation for epoch in record.epochs]
    ends = f"from {values[0]:.2f} to {values[-1]:.2f} percent"
    about = f"Validation accuracy over {len(values)} epochs, {ends}"
    epochs = [epoch.epoch for epoch in record.epochs]
    chart = line_chart(
        "accuracy", about, epochs, values, accuracies(values), lambda tick: f"{tick:g} %"
    )
    return _figure("Validation accuracy", "each step up halves the errors, about", chart)


def _loss(record: Record) -> Html:
    values = [epoch.loss for epoch in record.epochs]
    about = f"Training loss over {len(values)} epochs, from {values[0]:.4f} to {values[-1]:.4f}"
    epochs = [epoch.epoch for epoch in record.epochs]
    chart = line_chart("loss", about, epochs, values, losses(values), lambda tick: f"{tick:g}")
    return _figure("Training loss", "mean of an epoch, without the penalty", chart)


def _kept(record: Record) -> Html:
    values = [float(epoch.kept) for epoch in record.epochs]
    about = f"Weights kept over {len(values)} epochs, from {values[0]:,.0f} to {values[-1]:,.0f}"
    epochs = [epoch.epoch for epoch in record.epochs]
    return _figure(
        "Weights kept",
        f"of {record.total:,}",
        line_chart("kept", about, epochs, values, counts(_counts(record)), short),
    )


def _gates(record: Record) -> Html:
    shown = [epoch.gates for epoch in record.epochs if epoch.gates]
    if not shown:
        words = (
            "This run has no gates."
            if record.run["method"]["name"] != "learned_gates"
            else (
                "This record was made before gates were counted at every epoch; train again to "
                "see them."
            )
        )
        return _figure("Gates", words, element("span"))
    most = max(max(counts) for counts in [*shown, record.first_gates or shown[0]])
    return _figure("Gates", "number of gates by value", histogram(shown[-1], most))


def _figure(title: str, note: str, chart: Html) -> Html:
    return element(
        "figure", element("figcaption", title, element("span", note, class_="quiet")), chart
    )


def _layers(record: Record) -> Html:
    """A table of the weights that every gated layer keeps after every epoch."""
    counted = [epoch for epoch in record.epochs if epoch.layers]
    if not counted:
        return element("span")
    names = list(counted[0].layers)
    heads = [Head("epoch"), *(Head(name, "n") for name in names)]
    rows = [
        (str(epoch.epoch), *(f"{epoch.layers.get(name, 0):,}" for name in names))
        for epoch in counted
    ]
    about = "Weights kept in every layer after every epoch"
    return folded("Weights kept in every layer", html_table(about, heads, rows))


def _rows(record: Record) -> list[tuple[str, ...]]:
    return [
        (str(epoch.epoch), f"{epoch.validation:.2f} %", f"{epoch.kept:,}", f"{epoch.loss:.4f}")
        for epoch in record.epochs
    ]


GAP = 1.4


def histogram(first: Sequence[int], most: int) -> Html:
    """Returns bars of the first counts, on a logarithmic scale up to `most`."""
    step = (WIDTH - LEFT - RIGHT) / len(first)
    scale = counts([1, most])
    bars = (
        _bar(place, len(first), step, scale.share(count) if count else 0.0)
        for place, count in enumerate(first)
    )
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    return element(
        "svg",
        marks(scale, short),
        join(bars),
        element("line", x1=middle, x2=middle, y1=TOP, y2=HEIGHT - BOTTOM, class_="edge"),
        *(
            element(
                "text",
                words,
                x=LEFT + (WIDTH - LEFT - RIGHT) * at,
                y=HEIGHT - 8,
                text_anchor=anchor,
            )
            for words, at, anchor in (
                ("0 closed", 0, "start"),
                ("0.5", 0.5, "middle"),
                ("open 1", 1, "end"),
            )
        ),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label="Number of gates by value; the slider above chooses the epoch",
        id="chart-gates",
        data_top=TOP,
        data_floor=HEIGHT - BOTTOM,
        data_most=int(scale.high),
    )


def _bar(place: int, bins: int, step: float, share: float) -> Html:
    top = down(share)
    kind = "open" if place >= bins // 2 else "shut"
    box = {
        "x": LEFT + place * step + GAP / 2,
        "y": top,
        "width": step - GAP,
        "height": HEIGHT - BOTTOM - top,
    }
    return element("rect", class_=kind, **box)
