"""Records which layers of a network run sparse, with the times that decided it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.schema import load_json, parse


@dataclass(frozen=True)
class LayerChoice:
    """How one layer runs, and the measured times."""

    name: str
    sparsity: float
    kernel: str
    """The kernel. Dense: dense (torch), packed (oneDNN, weights laid out in advance), winograd,
    winograd8. Sparse: chain (C), triton (GPU), csr (torch), hardwired (compiled in)."""
    dense_ms: float | None = None
    sparse_ms: float | None = None
    """Time of the layer alone, by the fastest kernel other than torch's; None if not measured."""

    def __post_init__(self) -> None:
        _check_times(self.dense_ms, self.sparse_ms)
        if not 0 <= self.sparsity <= 1:
            raise ValueError(f"sparsity is a fraction in [0, 1], got {self.sparsity}")


@dataclass(frozen=True)
class Choice:
    """The choice for one batch size, one number of threads and one device."""

    batch: int
    threads: int
    device: str
    layers: tuple[LayerChoice, ...]
    dense_ms: float | None = None
    sparse_ms: float | None = None
    """The whole network."""
    note: str = ""
    channels_last: bool = False
    """Whether dense convolutions run with their channels last."""

    def __post_init__(self) -> None:
        _check_times(self.dense_ms, self.sparse_ms)
        if self.batch < 0 or self.threads < 1:
            raise ValueError(
                "batch is zero or more and threads one or more, "
                f"got batch={self.batch}, threads={self.threads}"
            )

    @property
    def kernels(self) -> dict[str, str]:
        """The kernel of each layer."""
        return {layer.name: layer.kernel for layer in self.layers}

    def with_sparsities(self, sparsities: Mapping[str, float]) -> Choice:
        """The same choice with new fractions of zeros."""
        layers = (
            replace(each, sparsity=sparsities.get(each.name, each.sparsity)) for each in self.layers
        )
        return replace(self, layers=tuple(layers))

    def table(self) -> str:
        """A table of layers: sparsity, kernel and times."""
        rows = [("layer", "sparsity", "torch", "ours", "chosen")]
        rows += [
            (
                each.name,
                f"{100 * each.sparsity:.2f} %",
                _ms(each.dense_ms),
                _ms(each.sparse_ms),
                each.kernel,
            )
            for each in self.layers
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        head = f"batch {self.batch}, {self.threads} thread{'s' * (self.threads > 1)}, {self.device}"
        layout = ["dense convolutions run with their channels last"] * self.channels_last
        end = [self._sum()] if self._is_measured or not self.note else []
        return "\n".join([head, *lines, *layout, *end, *([self.note] if self.note else [])])

    @property
    def _is_measured(self) -> bool:
        return self.dense_ms is not None and self.sparse_ms is not None

    def _sum(self) -> str:
        if self.dense_ms is None or self.sparse_ms is None:
            return "not measured: as asked for"
        return (
            f"whole network: {_ms(self.dense_ms)} dense, {_ms(self.sparse_ms)} as chosen, "
            f"{self.dense_ms / self.sparse_ms:.2f} times as fast"
        )


def save_choices(choices: tuple[Choice, ...], path: Path | str) -> None:
    """Writes choices as JSON."""
    write_atomically(Path(path), json.dumps([asdict(each) for each in choices], indent=1).encode())


def load_choices(path: Path | str) -> tuple[Choice, ...]:
    """Reads what `save_choices` wrote.

    Raises:
        ValueError: If the file holds something else; the text names the file and the field.
    """
    return load_json(Path(path), lambda value: tuple(parse(tuple[Choice, ...], value)))


def _check_times(*times: float | None) -> None:
    if any(time is not None and not time > 0 for time in times):
        raise ValueError(f"times are above zero, got {', '.join(map(str, times))} ms")


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} ms" if value < 10 else f"{value:.1f} ms"
