"""Several runs side by side: who is best, and in what they differ."""

import dataclasses
import re

from sparsegate_lab.record import Layer
from sparsegate_lab.report import comparison_page


def variant(record, name, kept, test, **settings):
    layers = (Layer("fc1.weight", (120,), 120, kept),)
    return dataclasses.replace(
        record, name=name, layers=layers, test=test, run={**record.run, **settings}
    )


def test_the_table_has_every_run_and_only_the_settings_that_differ(record):
    runs = [variant(record, "one", 6, 98.0), variant(record, "two", 12, 99.0, epochs=3)]
    page = comparison_page(runs)
    assert all(part in page for part in ("one", "two", "98.00 %", "99.00 %", "20.0x", "10.0x"))
    differing = page.split("Settings that differ", 1)[1]
    assert re.search(r'<th scope="row">epochs</th><td>2</td><td>3</td>', differing)
    assert '"row">model<' not in differing


def test_the_same_settings_twice_differ_in_nothing(record):
    assert "None: all settings are the same" in comparison_page([record, record])


def test_dots_on_the_frontier_are_told_from_those_behind(record):
    page = comparison_page(
        [
            variant(record, "a", 6, 98.0),
            variant(record, "b", 12, 97.0),
            variant(record, "c", 20, 99.0),
        ]
    )
    assert re.findall(r'<circle [^>]*class="(open|shut)"', page) == ["open", "shut", "open"]


def test_names_are_text(record):
    page = comparison_page([variant(record, "<b>one</b>", 6, 98.0, model="<i>"), record])
    assert "<b>" not in page
    assert "<i>&" not in page


def test_runs_on_different_data_are_not_one_frontier(record):
    page = comparison_page(
        [
            variant(record, "a", 6, 98.0, data="mnist"),
            variant(record, "b", 12, 90.0, data="fashion"),
        ]
    )
    assert re.findall(r'<circle [^>]*class="(open|shut)"', page) == ["open", "open"]
    assert page.count('class="frontier"') == 2
    assert "different data, each with a frontier: mnist, fashion" in page
