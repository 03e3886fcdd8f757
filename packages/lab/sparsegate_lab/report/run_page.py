"""Writes the page of a run: one HTML file with everything known about it."""

from __future__ import annotations

from sparsegate.web import Html, document, element, section, try_it
from sparsegate_lab.record import Record

from .network_view import Baseline, NetworkView
from .page_baseline import baseline_section
from .page_bits import bits_section
from .page_layers import layers_section, pictures_section
from .page_mistakes import mistakes_section
from .page_settings import settings_section
from .page_time import time_section

SCRIPTS = ("bytes", "decode", "network", "centre", "wires", "pad", "try_it", "moment", "masks")


def run_page(record: Record, view: NetworkView, baseline: Baseline | None) -> str:
    """Returns the whole file, from plain data alone."""
    parts = (
        _facts(record, view, baseline),
        try_it(view.browser) if view.browser else _cannot_try(view.no_browser),
        time_section(record),
        baseline_section(record, view, baseline),
        mistakes_section(view.mistakes),
        layers_section(record, view),
        pictures_section(view),
        bits_section(view),
        settings_section(record),
    )
    body = (_heading(record), element("main", *parts), _footer(record))
    return document(
        f"{record.name}: {record.kept:,} weights, {record.test:.2f} %", *body, scripts=SCRIPTS
    )


def _heading(record: Record) -> Html:
    model, data, method = (
        record.run["model"],
        record.run["data"],
        record.run["method"]["name"].replace("_", " "),
    )
    few = f"{record.kept:,} of {record.total:,} weights"
    return element(
        "header",
        element(
            "p", f"{model} on {data} · {method} · {len(record.epochs)} epochs", class_="kicker"
        ),
        element("h1", f"{record.test:.2f} % with {few}"),
        element("p", record.name, class_="lead code"),
        class_="top",
    )


def _facts(record: Record, view: NetworkView, baseline: Baseline | None) -> Html:
    dense, small = view.files.get("dense", 0), min(view.files.values(), default=0)
    gap = (
        ""
        if baseline is None or baseline.test is None
        else f"{record.test - baseline.test:+.2f} points against dense"
    )
    facts = [
        (
            "test accuracy",
            f"{record.test:.2f}",
            "%",
            gap or f"validation {record.validation:.2f} %",
            "main",
        ),
        (
            "fewer weights",
            f"{record.rate:,.1f}",
            "x",
            f"with biases {record.rate_with_biases:,.1f}x",
            "main",
        ),
        (
            "of the weights kept",
            f"{100 * record.kept / record.total:.2f}",
            "%",
            f"{record.kept:,}",
            "",
        ),
    ]
    if small:
        facts.append(
            ("smallest file", f"{small / 1000:,.1f}", "kB", f"dense: {dense / 1000:,.0f} kB", "")
        )
    facts.append(("training", f"{record.seconds / 60:,.1f}", "min", _machine(record), ""))
    return element(
        "dl", *(_fact(*fact) for fact in facts), class_="facts", aria_label="The result in short"
    )


def _fact(name: str, number: str, unit: str, more: str, kind: str) -> Html:
    value = element("dd", number, " ", element("small", unit))
    return element(
        "div",
        element("dt", name),
        value,
        element("dd", more, class_="more"),
        class_=f"fact {kind}".strip(),
    )


def _machine(record: Record) -> str:
    return str(record.machine.get("gpu") or f"{record.machine.get('cores', '?')} cores")


def _cannot_try(why: str) -> Html | None:
    if not why:
        return None
    return section("try", "Draw an image", element("p", why, class_="quiet"))


def _footer(record: Record) -> Html:
    return element(
        "footer",
        f"Made by sparsegate {record.versions.get('sparsegate', '')}. This file needs no network.",
    )
