"""Saves and loads checkpoints: safetensors files with a checksum, the last two of a run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.optim import Optimizer

from sparsegate.sharded import whole
from sparsegate_runtime.atomic import write_atomically

from .shard import like

KEPT = 2
NAME = re.compile(r"step-(\d{9,18})\.safetensors")
METADATA = ("run", "step", "groups", "notes")


class DamagedCheckpointError(ValueError):
    """A checkpoint cannot be read, or its content does not match its checksum."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a checkpoint's file holds, verified."""

    step: int
    """Number of steps before it."""
    notes: dict[str, Any]
    tensors: dict[str, Tensor]
    groups: list[list[dict[str, Any]]]
    """The parameter groups of every optimizer."""
    damaged: tuple[str, ...] = ()
    """Remarks on newer checkpoints that could not be read."""

    def load_(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Loads model and optimizers, in place."""
        own, saved = model.state_dict(), _under("model", self.tensors)
        if own.keys() != saved.keys():
            different = ", ".join(sorted(own.keys() ^ saved.keys())[:3])
            raise ValueError(
                f"the checkpoint of step {self.step} does not fit the model: they differ in "
                f"{different}; delete the run's folder to train again"
            )
        model.load_state_dict({name: like(own[name], each) for name, each in saved.items()})
        for index, (optimizer, group) in enumerate(zip(optimizers, self.groups, strict=True)):
            params = [param for each in optimizer.param_groups for param in each["params"]]
            state: dict[int, dict[str, Tensor]] = {}
            for path, tensor in _under(f"optimizer{index}", self.tensors).items():
                param, _, name = path.partition("/")
                state.setdefault(int(param), {})[name] = like(params[int(param)], tensor)
            optimizer.load_state_dict({"state": state, "param_groups": group})


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run, in one folder."""

    folder: Path
    run: str
    """The run's name; a checkpoint of another run is refused."""

    def save(
        self,
        step: int,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        notes: dict[str, Any],
        *,
        write: bool = True,
    ) -> None:
        """Writes a checkpoint, and removes all but the last two.

        Args:
            step: the number of steps so far.
            model: the model.
            optimizers: the optimizers, in an order that `Checkpoint.load_` gets too.
            notes: plain values to save with them.
            write: whether this process writes. Processes that share a sharded model all call this
                function, and one of them writes.
        """
        states = [optimizer.state_dict() for optimizer in optimizers]
        tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
        for index, state in enumerate(states):
            tensors |= _flattened(f"optimizer{index}", state["state"])
        # Copies, because safetensors refuses tensors that share memory, as tied weights do.
        copies = {
            name: whole(tensor.detach()).cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }
        if write:
            groups = json.dumps([state["param_groups"] for state in states])
            about = {"run": self.run, "step": str(step), "groups": groups}
            about["notes"] = json.dumps(notes)
            self._write(step, copies, about | {"checksum": checksum(copies, about)})

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is not damaged; None if there is no checkpoint.

        Raises a `ValueError` if all are damaged, or if one is of another run or an earlier version.
        """
        damaged: list[str] = []
        for path in reversed(self._files()):
            try:
                return self._read(path, tuple(damaged))
            except DamagedCheckpointError as error:
                damaged.append(f"{error}; training continues from the one before")
        if damaged:
            raise ValueError(
                f"no checkpoint in {self.folder} can be read ({damaged[0].partition(';')[0]}); "
                "delete the folder to train from the beginning"
            )
        return None

    def resume(
        self, model: nn.Module, optimizers: Sequence[Optimizer]
    ) -> tuple[int, dict[str, Any]]:
        """Loads the newest checkpoint into model and optimizers, in place.

        Returns:
            Its step and its notes; step 0 and no notes if there is no checkpoint.
        """
        checkpoint = self.newest()
        if checkpoint is None:
            return 0, {}
        checkpoint.load_(model, optimizers)
        return checkpoint.step, checkpoint.notes

    def last_step(self) -> int:
        """The step of the newest file, 0 if there is none."""
        files = self._files()
        return _step_of(files[-1]) if files else 0

    def _write(self, step: int, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        content = safetensors.torch.save(tensors, about)
        write_atomically(self.folder / f"step-{step:09d}.safetensors", content)
        for old in self._files()[:-KEPT]:
            old.unlink(missing_ok=True)

    def _read(self, path: Path, damaged: tuple[str, ...]) -> Checkpoint:
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                self._check_run(path, about)
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise DamagedCheckpointError(
                f"the checkpoint {path} is damaged: it cannot be read ({error})"
            ) from error
        step = _step_of(path)
        if checksum(tensors, about) != about["checksum"] or about["step"] != str(step):
            raise DamagedCheckpointError(
                f"the checkpoint {path} is damaged: its content does not match its checksum"
            )
        try:
            groups, notes = json.loads(about["groups"]), json.loads(about["notes"])
        except ValueError as error:
            raise ValueError(
                f"the checkpoint {path} has metadata that is not JSON: {error}"
            ) from error
        return Checkpoint(step, notes, tensors, groups, damaged)

    def _check_run(self, path: Path, about: dict[str, str]) -> None:
        if about.get("run") != self.run:
            raise ValueError(
                f"the checkpoint {path} is of another run ({about.get('run')}); this is "
                f"{self.run}: use another --folder, or delete it"
            )
        if missing := [name for name in (*METADATA, "checksum") if name not in about]:
            raise ValueError(
                f"the checkpoint {path} has no {missing[0]}: an earlier version of sparsegate "
                "wrote it; finish the run with that version, or delete it"
            )

    def _files(self) -> list[Path]:
        files = [path for path in self.folder.glob("step-*") if NAME.fullmatch(path.name)]
        return sorted(files, key=_step_of)


def checksum(tensors: dict[str, Tensor], about: dict[str, str]) -> str:
    """A hash of tensors on the CPU and of a checkpoint's metadata."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([about[name] for name in METADATA]).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _step_of(path: Path) -> int:
    found = NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _flattened(prefix: str, state: dict[int, dict[str, Any]]) -> dict[str, Tensor]:
    return {
        f"{prefix}/{param}/{name}": torch.as_tensor(value)
        for param, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}/"): tensor
        for name, tensor in tensors.items()
        if name.startswith(f"{prefix}/")
    }
