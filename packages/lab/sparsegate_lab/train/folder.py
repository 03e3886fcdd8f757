"""The folder of one run: its lock, its record and its finished network."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from sparsegate.files import compress
from sparsegate_lab.record import Record
from sparsegate_runtime.atomic import write_atomically

from .checkpoint import Checkpoints
from .run import Run
from .weights import PACKED, content_hash

MAX_SG = (
    2**28
)  # elements; they take some ten seconds, and while it is coded a byte each of the largest tensor


@dataclass(frozen=True)
class RunFolder:
    """Where a run leaves what it makes: run.json, checkpoints/, network.safetensors, its packed files, record.json."""

    path: Path
    run: Run  # type: ignore[type-arg]
    save_every: int = 1
    """Epochs between two checkpoints."""
    pack: bool = True
    """Whether the finished network is written to small files too: a minute for a hundred million weights."""

    def __post_init__(self) -> None:
        if self.save_every < 1:
            raise ValueError(f"save_every is a number of epochs, at least 1, got {self.save_every}")

    @property
    def network(self) -> Path:
        """The finished network's state dict."""
        return self.path / "network.safetensors"

    @property
    def checkpoints(self) -> Checkpoints:
        """The run's checkpoints."""
        return Checkpoints(self.path / "checkpoints", self.run.name)

    def record(self) -> Record | None:
        """The record, if the run has ended."""
        path = self.path / "record.json"
        return Record.load(path) if path.exists() and self.network.exists() else None

    def check_data(self, counts: dict[str, int]) -> None:
        """Refuses to go on with data of which these counts are others than when the run was left."""
        before = self.checkpoints.notes()
        for what, count in counts.items():
            if before.get(what, count) != count:
                raise ValueError(
                    f"this run was interrupted when its data had {before[what]:,} {what}, and now it has {count:,}; "
                    f"bring the old data back, or begin anew: delete {self.path}"
                )

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Holds the folder for this process alone; a killed process lets go of it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"another process is training in {self.path}; wait for it or stop it"
                ) from None
            for partial in self.path.rglob(".*.partial"):  # left by a kill in the middle of a write
                partial.unlink(missing_ok=True)
            write_atomically(
                self.path / "run.json", json.dumps(self.run.to_json(), indent=1).encode()
            )
            yield

    @property
    def packed(self) -> list[Path]:
        """The finished network's small files."""
        return [path for ending in PACKED if (path := self.path / f"network{ending}").exists()]

    def close(self, model: nn.Module, record: Record) -> Record:
        """Writes the finished network, dense and packed, then the record, which knows its hash, to end the run."""
        state = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in model.state_dict().items()
        }
        write_atomically(self.network, safetensors.torch.save(state, {"run": self.run.name}))
        if self.pack:
            packed = compress(state)
            for name in self._packed_names(state):
                packed.save(self.path / name)
        record = replace(record, content=content_hash(str(self.network)))
        record.save(self.path / "record.json")
        return record

    def _packed_names(self, state: dict[str, Tensor]) -> list[str]:
        small = sum(tensor.numel() for tensor in state.values()) <= MAX_SG
        return [f"network{ending}" for ending in (PACKED if small else PACKED[:1])]
