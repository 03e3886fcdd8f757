"""The attack on what a run leaves: no flipped bit of any file of it goes unnoticed."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from random import Random

from sparsegate.files import load
from sparsegate.price import Penalty
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, RunFolder, Watcher, train
from sparsegate_runtime.schema import load_json

from .attack import FAULT, Attack
from .digits import write_digits

METHOD = LearnedGates(penalty=Penalty(count=4.0), gate_lr=100.0, ramp=0.2)


class StoppedError(Exception):
    """Interrupts a run."""


class StopsAfter(Watcher):
    """Interrupts a run after an epoch."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def measured(self, epoch: object) -> None:
        """Raises at the end of the epoch."""
        if getattr(epoch, "epoch", 0) == self._epoch:
            raise StoppedError


class Flips(Attack):
    """Flips one bit of one file: of a checkpoint, a network, a record or the settings."""

    title = (
        "one flipped bit in a file of a run: checkpoint, network, packed network, record, run.json"
    )

    def prepare(self, folder: Path) -> None:
        """Trains a run, once to its end and once until it is interrupted."""
        data = write_digits(folder / "digits")
        self._run = Run(model="lenet300", data=str(data), epochs=3, batch_size=100, method=METHOD)
        train(self._run, folder=folder / "ended")
        with contextlib.suppress(StoppedError):
            train(self._run, folder=folder / "stopped", watch=StopsAfter(2))
        self._ended, self._stopped = (
            folder / name / self._run.name for name in ("ended", "stopped")
        )
        self._network = (self._ended / "network.safetensors").read_bytes()
        self._scratch = folder / "scratch"
        self._state = load(self._ended / "network.sg").state_dict()

    def attempt(self, draw: Random) -> str:
        """Flips a bit, then reads the file as the program does."""
        kinds = {
            "checkpoint": self._checkpoint,
            "network.safetensors": self._dense,
            "network.sg": self._packed,
            "network.sparse.safetensors": self._packed,
            "record.json": self._record,
            "run.json": self._settings,
        }
        kind = draw.choice([*kinds, "checkpoint"])
        source = self._stopped if kind == "checkpoint" else self._ended
        shutil.rmtree(self._scratch, ignore_errors=True)
        shutil.copytree(source, self._scratch)
        name = "checkpoints/" + sorted(path.name for path in (source / "checkpoints").iterdir())[-1]
        path = self._scratch / (name if kind == "checkpoint" else kind)
        flip(path, draw)
        try:
            outcome = kinds[kind](path)
        except ValueError as error:
            outcome = (
                "noticed" if path.name in str(error) else f"{FAULT}the file is not named: {error}"
            )
        return (
            f"{kind}: {outcome}"
            if not outcome.startswith(FAULT)
            else f"{FAULT}{kind}: {outcome.removeprefix(FAULT)}"
        )

    def _checkpoint(self, path: Path) -> str:
        """A damaged checkpoint is skipped for the one before, and that is said."""
        found = RunFolder(self._scratch, self._run).checkpoints.newest()
        if found is not None and any(path.name in text for text in found.damaged):
            return "noticed"
        return f"{FAULT}went unnoticed"

    def _dense(self, path: Path) -> str:
        RunFolder(self._scratch, self._run).record()
        return f"{FAULT}went unnoticed"

    def _packed(self, path: Path) -> str:
        load(path).state_dict()
        return f"{FAULT}went unnoticed"

    def _record(self, path: Path) -> str:
        Record.load(path)
        return f"{FAULT}went unnoticed"

    def _settings(self, path: Path) -> str:
        load_json(path, Run.from_json)
        return f"{FAULT}went unnoticed"


def flip(path: Path, draw: Random) -> None:
    """Flips one bit, more often near the beginning, where headers are."""
    content = bytearray(path.read_bytes())
    end = draw.choice((len(content), min(len(content), 2000)))
    content[draw.randrange(end)] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
