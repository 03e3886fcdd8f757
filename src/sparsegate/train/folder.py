"""The folder of one run: its lock, its record and its finished network."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import nn

from sparsegate.atomic import write_atomically
from sparsegate.record import Record

from .checkpoint import Checkpoints
from .run import Run


@dataclass(frozen=True)
class RunFolder:
    """Where a run leaves what it makes: run.json, checkpoints/, network.safetensors, record.json."""

    path: Path
    run: Run  # type: ignore[type-arg]

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

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Holds the folder for this process alone; a killed process lets go of it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"another process is training in {self.path}; wait for it or stop it") from None
            for partial in self.path.rglob(".*.partial"):  # left by a kill in the middle of a write
                partial.unlink(missing_ok=True)
            write_atomically(self.path / "run.json", json.dumps(self.run.to_json(), indent=1).encode())
            yield

    def close(self, model: nn.Module, record: Record) -> None:
        """Writes the finished network, then the record, which says that the run has ended."""
        state = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in model.state_dict().items()
        }
        write_atomically(self.network, safetensors.torch.save(state, {"run": self.run.name}))
        record.save(self.path / "record.json")
