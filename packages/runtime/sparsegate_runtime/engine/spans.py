"""Records what each step of a plan takes, for tables and timelines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """One step of a run, or one operation of the caller."""

    name: str
    """The layer, or the kind of operation where no layer is behind it."""
    kind: str
    begin: float
    """Seconds since the run began."""
    seconds: float
    work: float = 0.0
    """Floating-point operations: two for each kept weight at each position."""
    positions: tuple[int, int] = (0, 0)
    """The first position that the step computes, and the one after the last."""


def chrome_trace(spans: Iterable[Span]) -> str:
    """The spans as JSON that Chrome's about:tracing and Perfetto display.

    >>> chrome_trace([Span("fc", "MULTIPLY", 0.0, 0.5)])[:30]
    '{"traceEvents": [{"name": "fc"'
    """
    events = [
        {
            "name": span.name,
            "cat": span.kind,
            "ph": "X",
            "ts": round(1e6 * span.begin, 3),
            "dur": round(1e6 * span.seconds, 3),
            "pid": 0,
            "tid": 0,
            "args": {
                "kind": span.kind,
                "positions": list(span.positions),
                "gflops": round(span.work / max(span.seconds, 1e-9) / 1e9, 3),
            },
        }
        for span in spans
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
