"""The folder of a run: its lock, settings, checkpoints, finished network and record."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from sparsegate.files import compress
from sparsegate_lab.record import Record
from sparsegate_runtime.atomic import remove_partials, write_atomically

from .checkpoint import Checkpoints
from .run import Run
from .weights import PACKED, content_hash

# Elements. Coding so many takes about ten seconds, and one byte for each of the largest tensor.
MAX_SG = 2**28


class BusyError(ValueError):
    """Another process is training in the folder of a run."""


@dataclass(frozen=True)
class RunFolder:
    """What a run writes.

    These are run.json, checkpoints/, network.safetensors, its packed files and record.json.
    """

    path: Path
    run: Run[Any]
    save_every: int = 1
    """Epochs between two checkpoints."""
    pack: bool = True
    """Whether to pack the finished network; takes a minute for a hundred million weights."""

    def __post_init__(self) -> None:
        if self.save_every < 1:
            raise ValueError(f"save_every is at least 1 epoch, got {self.save_every}")

    @property
    def network(self) -> Path:
        """The finished network's state dict."""
        return self.path / "network.safetensors"

    @property
    def checkpoints(self) -> Checkpoints:
        """The run's checkpoints."""
        return Checkpoints(self.path / "checkpoints", self.run.name)

    @property
    def packed(self) -> list[Path]:
        """The finished network's packed files."""
        paths = [self.path / f"network{ending}" for ending in PACKED]
        return [path for path in paths if path.exists()]

    def record(self) -> Record | None:
        """The record, if the run has ended; raises if the network is not the recorded one."""
        path = self.path / "record.json"
        if not path.exists() or not self.network.exists():
            return None
        record = Record.load(path)
        if record.content and content_hash(str(self.network)) != record.content:
            raise ValueError(
                f"{self.network} does not match its hash in record.json: it was damaged or "
                f"replaced; restore it, or delete {self.path} to train again"
            )
        return record

    def repair(self) -> None:
        """Packs the network of an ended run again if a packed file is missing.

        Also removes what killed processes left in the folder.
        """
        remove_partials(self.path)
        if self.pack and not all((self.path / f"network{ending}").exists() for ending in PACKED):
            self._pack(safetensors.torch.load_file(self.network), replace_all=False)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Locks the folder for this process; the lock of a killed process is free."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = _open_lock(self.path / ".lock")
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BusyError(
                    f"another process is training in {self.path}; wait for it or stop it"
                ) from None
            for partial in self.path.rglob(".*.partial"):  # left by a process that was killed
                partial.unlink(missing_ok=True)
            settings = json.dumps(self.run.to_json(), indent=1)
            write_atomically(self.path / "run.json", settings.encode())
            yield
        finally:
            os.close(lock)

    def close(self, model: nn.Module, record: Record) -> Record:
        """Writes the finished network and its packed files, then the record, which ends the run.

        Returns:
            The record, with the hash of the network's file.
        """
        state = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in model.state_dict().items()
        }
        write_atomically(self.network, safetensors.torch.save(state, {"run": self.run.name}))
        if self.pack:
            self._pack(state, replace_all=True)
        record = replace(record, content=content_hash(str(self.network)))
        record.save(self.path / "record.json")
        return record

    def _pack(self, state: dict[str, Tensor], *, replace_all: bool) -> None:
        """Writes the packed files; a very large network gets no .sg file."""
        small = sum(tensor.numel() for tensor in state.values()) <= MAX_SG
        paths = [self.path / f"network{ending}" for ending in (PACKED if small else PACKED[:1])]
        if wanted := [path for path in paths if replace_all or not path.exists()]:
            packed = compress(state)
            for path in wanted:
                packed.save(path)


def _open_lock(path: Path) -> int:
    """Opens a lock file without changing it, and without following a symbolic link."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(
            f"the lock file {path} is a symbolic link, which could point anywhere; remove it"
        ) from None
