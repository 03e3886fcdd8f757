"""Shows a run live in a Jupyter notebook: a bar, curves, and the last epochs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsegate.web import Html, element, join
from sparsegate_lab.record import Epoch, Record

from .watch import Watcher

if TYPE_CHECKING:
    from .run import Run

WIDTH, HEIGHT = 220, 64
PAUSE = 0.5  # seconds between two updates of the bar
SHOWN = 5  # epochs in the table
CELL = "padding: 2px 10px; text-align: right"


class NotebookProgress(Watcher):
    """Shows the progress of a run in the output of a notebook's cell, and updates it in place.

    >>> train(run, watch=NotebookProgress())  # doctest: +SKIP

    It shows curves of loss, validation accuracy and kept weights, and a table of the last epochs.
    Outside of a notebook, IPython prints one line instead.

    Raises:
        ImportError: If IPython is not installed.
    """

    def __init__(self) -> None:
        try:
            from IPython import display
        except ImportError as error:
            raise ImportError(
                "NotebookProgress shows a run in a Jupyter notebook, and IPython is not installed; "
                "on a terminal, use the command sparsegate train"
            ) from error
        self._display: Any = display
        self._handle: Any = None
        self._title, self._says = "", ""
        self._done, self._steps, self._num_weights = 0, 1, 1
        self._epochs: list[Epoch] = []
        self._notes: list[str] = []
        self._updated = 0.0

    def began(self, run: Run, folder: Path, step: int, steps: int, num_weights: int) -> None:  # type: ignore[type-arg]
        """Shows the block."""
        self._title = f"{run.model} on {run.data}"
        self._done, self._steps, self._num_weights = step, steps, num_weights
        self._epochs, self._notes, self._says = [], [], ""
        self._handle = self._display.display(self._block(), display_id=True)

    def stepped(self, step: int) -> None:
        """Moves the bar."""
        self._done = step
        if time.monotonic() - self._updated > PAUSE:
            self._update()

    def measured(self, epoch: Epoch) -> None:
        """Adds a point to every curve, and a row to the table."""
        self._epochs.append(epoch)
        self._update()

    def noted(self, note: str) -> None:
        """Shows a remark."""
        self._notes.append(note)
        self._update()

    def ended(self, record: Record) -> None:
        """Shows the result."""
        self._says = (
            f"{record.test:.2f} % of the test images, {record.kept:,} of {record.total:,} weights"
        )
        self._update()

    def _update(self) -> None:
        self._updated = time.monotonic()
        if self._handle is not None:
            self._handle.update(self._block())

    def _block(self) -> Any:
        share = self._done / max(1, self._steps)
        bar = element("progress", value=f"{share:.3f}", max=1, style="width: 100%")
        says = self._says or f"step {self._done:,} of {self._steps:,}"
        notes = (element("p", f"note: {note}") for note in self._notes)
        head = element("p", element("b", self._title), f": {says}")
        body = (head, bar, self._curves(), self._table(), *notes)
        block = element("div", *body, style="max-width: 720px")
        plain = f"{self._title}: {says}"
        return _Block(block.text, plain)

    def _curves(self) -> Html:
        names = {"loss": "loss", "validation": "validation accuracy", "kept": "weights kept"}
        return join(
            curve(title, [getattr(epoch, name) for epoch in self._epochs])
            for name, title in names.items()
        )

    def _table(self) -> Html:
        if not self._epochs:
            return element("span")
        heads = ("epoch", "loss", "validation", "kept", "times fewer")
        rows = [
            (
                str(epoch.epoch),
                f"{epoch.loss:.4f}",
                f"{epoch.validation:.2f} %",
                f"{epoch.kept:,}",
                f"{self._num_weights / max(1, epoch.kept):,.1f}",
            )
            for epoch in self._epochs[-SHOWN:]
        ]
        head = element("tr", *(element("th", name, style=CELL) for name in heads))
        body = (element("tr", *(element("td", cell, style=CELL) for cell in row)) for row in rows)
        return element("table", head, *body)


class _Block:
    """What a notebook shows, and what a terminal prints."""

    def __init__(self, page: str, plain: str) -> None:
        self._page, self._plain = page, plain

    def _repr_html_(self) -> str:
        return self._page

    def __repr__(self) -> str:
        return self._plain


def curve(title: str, values: Sequence[float | int]) -> Html:
    """One small line chart with its last value; empty without values."""
    if not values:
        return element("span")
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    points = " ".join(
        f"{4 + (WIDTH - 8) * index / max(1, len(values) - 1):.1f},"
        f"{HEIGHT - 4 - (HEIGHT - 8) * (value - low) / span:.1f}"
        for index, value in enumerate(values)
    )
    line = element("polyline", points=points, fill="none", stroke="#2f6fb0", stroke_width="2")
    about = f"{title}: {values[-1]:,.4g}"
    chart = element(
        "svg", line, viewBox=f"0 0 {WIDTH} {HEIGHT}", width=WIDTH, role="img", aria_label=about
    )
    return element("figure", element("figcaption", about), chart, style="display: inline-block")
