"""Checkpoints: one safetensors file each, no pickle, the last two kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run, in one folder."""

    folder: Path
    run: str
    """The run's name: a checkpoint of another run is refused."""

    def save(
        self,
        step: int,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        notes: dict[str, Any],
        *,
        write: bool = True,
    ) -> None:
        """Writes model, optimisers and notes as they are after `step` steps; older checkpoints than the last two go.

        Of several processes that share a model out all must call it, for their parts, and one writes.
        """
        states = [optimizer.state_dict() for optimizer in optimizers]
        tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
        for place, state in enumerate(states):
            tensors |= _flattened(f"optimizer{place}", state["state"])
        # Copies: safetensors refuses tensors that share memory, as tied weights do.
        copies = {
            name: whole(tensor.detach()).cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }
        if write:
            groups = json.dumps([state["param_groups"] for state in states])
            about = {
                "run": self.run,
                "step": str(step),
                "groups": groups,
                "notes": json.dumps(notes),
            }
            self._write(step, safetensors.torch.save(copies, about))

    def _write(self, step: int, content: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / f"step-{step:09d}.safetensors", content)
        for old in self._files()[:-KEPT]:
            old.unlink(missing_ok=True)

    def last_step(self) -> int:
        """How many steps the newest checkpoint has behind it; 0 if there is none."""
        files = self._files()
        return int(files[-1].stem.removeprefix("step-")) if files else 0

    def resume(
        self, model: nn.Module, optimizers: Sequence[Optimizer]
    ) -> tuple[int, dict[str, Any]]:
        """Loads the newest checkpoint into model and optimisers; step 0 and no notes if there is none."""
        if not self._files():
            return 0, {}
        with self._opened() as (file, about):
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        _load(model, optimizers, tensors, json.loads(about["groups"]))
        return int(about["step"]), json.loads(about["notes"])

    def notes(self) -> dict[str, Any]:
        """The notes of the newest checkpoint, by which one knows whether it can be loaded; none if there is none."""
        if not self._files():
            return {}
        with self._opened() as (_, about):
            notes: dict[str, Any] = json.loads(about["notes"])
            return notes

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, dict[str, str]]]:
        """The newest checkpoint, and what it says about itself."""
        newest = self._files()[-1]
        try:
            with safe_open(newest, framework="pt") as file:
                about = file.metadata() or {}
                if about.get("run") != self.run:
                    raise ValueError(
                        f"the checkpoint {newest} is of another run ({about.get('run')}); this is {self.run}: "
                        "use another --folder, or delete it"
                    )
                yield file, about
        except (SafetensorError, OSError) as error:
            raise ValueError(
                f"the checkpoint {newest} cannot be read ({error}); delete it to resume before it"
            ) from error

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.safetensors"))


def _flattened(prefix: str, state: dict[int, dict[str, Any]]) -> dict[str, Tensor]:
    return {
        f"{prefix}/{param}/{name}": torch.as_tensor(value)
        for param, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def _load(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    tensors: dict[str, Tensor],
    groups: list[list[dict[str, Any]]],
) -> None:
    own = model.state_dict()
    model.load_state_dict(
        {name: like(own[name], each) for name, each in _under("model", tensors).items()}
    )
    for place, (optimizer, group) in enumerate(zip(optimizers, groups, strict=True)):
        params = [param for each in optimizer.param_groups for param in each["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for path, tensor in _under(f"optimizer{place}", tensors).items():
            param, _, name = path.partition("/")
            state.setdefault(int(param), {})[name] = like(params[int(param)], tensor)
        optimizer.load_state_dict({"state": state, "param_groups": group})


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}/"): tensor
        for name, tensor in tensors.items()
        if name.startswith(f"{prefix}/")
    }
