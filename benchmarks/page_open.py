"""How large a run's page is and how fast it opens.

Usage: python benchmarks/page_open.py runs/NAME (needs chromium)
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from sparsegate_lab.record import Record
from sparsegate_lab.report import make_page
from sparsegate_lab.train import machine, versions

RESULT = Path("results/page.json")
TIMES = 7
SIZE, SECONDS = 1_500_000, 1.0  # at most
OPENED = """() => {
  const [loaded] = performance.getEntriesByType("navigation");
  const [painted] = performance.getEntriesByName("first-contentful-paint");
  return [loaded.loadEventEnd, painted ? painted.startTime : loaded.loadEventEnd];
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    record = Record.load(run / "record.json")
    with tempfile.TemporaryDirectory() as folder:
        page = make_page(run, Path(folder) / "report.html")
        loaded, painted, browser = opened(page)
        size = page.stat().st_size
    seconds = statistics.median(loaded)
    content = {
        "title": f"The page of a run: at most {SIZE:,} bytes, opened in less than {SECONDS:g} s",
        "command": "python benchmarks/page_open.py runs/NAME",
        "run": {
            "name": record.name,
            "model": record.run["model"],
            "epochs": len(record.epochs),
            "kept": record.kept,
        },
        "bytes": size,
        "seconds_to_load": [round(each, 3) for each in loaded],
        "seconds_to_first_paint": [round(each, 3) for each in painted],
        "enough": size < SIZE and seconds < SECONDS,
        "browser": browser,
        "machine": machine(),
        "versions": versions(),
    }
    RESULT.write_text(json.dumps(content, indent=1) + "\n")
    print(
        f"{size:,} bytes; loaded in {seconds:.3f} s, painted in {statistics.median(painted):.3f} s "
        "(medians)"
    )


def opened(page: Path) -> tuple[list[float], list[float], str]:
    """Seconds until the page is loaded and until something is seen, each time in a new context.

    And the browser.
    """
    from playwright.sync_api import sync_playwright

    found: list[Any] = []
    with sync_playwright() as engine:
        browser = engine.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for _ in range(TIMES):
            tab = browser.new_context().new_page()
            tab.goto(page.absolute().as_uri())
            tab.wait_for_timeout(300)  # until it is painted
            found.append(tab.evaluate(OPENED))
        name = f"chromium {browser.version}, headless"
        browser.close()
    loaded, painted = ([each[place] / 1000 for each in found] for place in (0, 1))
    return loaded, painted, name


if __name__ == "__main__":
    main()
