"""The result of a speed comparison: as JSON, and as rows of text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sparsegate.text_table import Row
from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.schema import SchemaError, load_json, parse_fields

FORMAT = 1
DERIVED = ("over_baseline", "best_dense")
"""What a file shows next to the fields of a timing."""
BASELINE = "torch eager"
OURS = "sparsegate"
MAX_SPREAD = 0.25
"""A time is noisy if its quartiles are further apart than this fraction of the median."""


@dataclass(frozen=True)
class Timing:
    """How long each engine takes for one batch at one number of threads.

    >>> timing = Timing(1, 1, {"torch eager": 6.0, "onnxruntime": 4.0, "sparsegate": 2.0})
    >>> timing.over_baseline(), timing.over_best_dense()
    (3.0, 2.0)
    """

    batch: int
    threads: int
    milliseconds: dict[str, float]
    """Medians; an engine that failed is missing."""
    differences: dict[str, float] = field(default_factory=dict)
    """The largest difference from the first engine's outputs, relative to the largest output."""
    skips_zeros: tuple[str, ...] = ("deepsparse", OURS)
    """Engines that zeros make faster; the others compute with them."""
    quartiles: dict[str, tuple[float, float]] = field(default_factory=dict)
    """First and third quartile in milliseconds; empty in records of version 0.1."""

    def __post_init__(self) -> None:
        if not all(time > 0 for time in self.milliseconds.values()):
            raise ValueError(f"milliseconds are above zero, got {self.milliseconds}")

    @property
    def best_dense(self) -> str:
        """The fastest engine that does not skip zeros."""
        dense = [name for name in self.milliseconds if name not in self.skips_zeros]
        return min(dense, key=lambda name: self.milliseconds[name])

    def over_baseline(self, engine: str = OURS) -> float:
        """How many times faster an engine is than torch without compilation."""
        return self.milliseconds[BASELINE] / self.milliseconds[engine]

    def over_best_dense(self, engine: str = OURS) -> float:
        """How many times faster an engine is than the fastest dense one."""
        return self.milliseconds[self.best_dense] / self.milliseconds[engine]

    def is_noisy(self, engine: str) -> bool:
        """Whether an engine's times vary so much that its median means little.

        >>> Timing(1, 1, {"sparsegate": 2.0}, quartiles={"sparsegate": (1.9, 8.0)}).is_noisy(OURS)
        True
        """
        if engine not in self.quartiles:
            return False
        low, high = self.quartiles[engine]
        return high - low > MAX_SPREAD * self.milliseconds[engine]


@dataclass(frozen=True)
class Speed:
    """A network timed in several engines, with what is needed to repeat it."""

    network: str
    command: str
    machine: dict[str, Any]
    versions: dict[str, str]
    timings: tuple[Timing, ...]
    layers: tuple[dict[str, Any], ...] = ()
    """The measurements and the chosen kernel of each layer, per batch and number of threads."""
    notes: tuple[str, ...] = ()
    """What a reader should know, such as an engine that is not installed or failed."""

    def __post_init__(self) -> None:
        for index, timing in enumerate(self.timings):
            if BASELINE not in timing.milliseconds or BASELINE in timing.skips_zeros:
                raise ValueError(
                    f"timings[{index}]: expected a dense time of {BASELINE!r}, to compare with"
                )

    @property
    def engines(self) -> list[str]:
        """Every engine that was timed at least once, in the order of the columns."""
        return list(dict.fromkeys(name for timing in self.timings for name in timing.milliseconds))

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values, with the speed-ups next to the times."""
        value = {"format": FORMAT, **asdict(self)}
        for row, timing in zip(value["timings"], self.timings, strict=True):
            ratios = {name: round(timing.over_baseline(name), 3) for name in timing.milliseconds}
            row |= {"over_baseline": ratios, "best_dense": timing.best_dense}
        return value

    @classmethod
    def from_json(cls, value: Any) -> Speed:
        """The record in a dictionary that `to_json` made.

        Raises:
            ValueError: If the dictionary is not such a record; the text names the field.
        """
        found = value.get("format") if isinstance(value, dict) else None
        if found != FORMAT:
            raise SchemaError(f"format: expected a speed record of format {FORMAT}, got {found!r}")
        fields = {name: entry for name, entry in value.items() if name != "format"}
        if isinstance(rows := fields.get("timings"), list | tuple):
            fields["timings"] = [_without_derived(row) for row in rows]
        speed: Speed = parse_fields(cls, fields)
        return speed

    def save(self, path: Path) -> None:
        """Writes the record as a JSON file, whole or not at all."""
        write_atomically(path, json.dumps(self.to_json(), indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> Speed:
        """Reads a record from a JSON file."""
        return load_json(path, cls.from_json)


def _without_derived(row: Any) -> Any:
    """A row of the file as a timing has it."""
    if not isinstance(row, dict):
        return row
    return {name: value for name, value in row.items() if name not in DERIVED}


NOISY = (
    f"! marks a time whose quartiles are more than {100 * MAX_SPREAD:.0f} % of its median apart; "
    "speed-ups of such times are not shown. The machine was busy: repeat with a larger --seconds"
)
UNSURE = "unsure"


def speed_table(speed: Speed) -> list[Row]:
    """A header, then a row for each number of threads and batch size.

    A time is a median in milliseconds, followed by its quartiles if they are known.
    """
    engines = speed.engines
    header = (
        "threads",
        "batch",
        *(f"{name} ms" for name in engines),
        "over eager",
        "over the best dense engine",
    )
    return [header, *(_cells(timing, engines) for timing in speed.timings)]


def _cells(timing: Timing, engines: list[str]) -> Row:
    times = (_time(timing, name) for name in engines)
    first = (str(timing.threads), str(timing.batch), *times)
    if OURS not in timing.milliseconds:
        return (*first, "-", "-")
    best = timing.best_dense
    over_eager = _ratio(timing, timing.over_baseline(), BASELINE)
    return (*first, over_eager, f"{_ratio(timing, timing.over_best_dense(), best)} ({best})")


def _ratio(timing: Timing, value: float, other: str) -> str:
    noisy = timing.is_noisy(OURS) or timing.is_noisy(other)
    return UNSURE if noisy else f"{value:.2f}x"


def _time(timing: Timing, engine: str) -> str:
    if engine not in timing.milliseconds:
        return "-"
    text = _ms(timing.milliseconds[engine])
    if engine in timing.quartiles:
        low, high = timing.quartiles[engine]
        text += f" ({_ms(low)} to {_ms(high)})"
    return text + ("!" if timing.is_noisy(engine) else "")


def _ms(value: float) -> str:
    return f"{value:.4f}" if value < 1 else f"{value:.2f}"
