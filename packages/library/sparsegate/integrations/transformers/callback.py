"""Watches gates in a Trainer of transformers, and finishes the model when training ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback

from sparsegate.gates import OPEN_ABOVE, Census, finish, gates, require_gates
from sparsegate.optimizers import GateOptimizer

from .saved import mark

PREFIX = "checkpoint"


class GateCallback(TrainerCallback):  # type: ignore[misc]
    """Logs the kept weights of a gated model, and finishes it in place when training ends.

    `SparseTrainer` adds it. A plain `Trainer` also needs an optimizer that moves gates::

        steps = ...  # of the whole training
        target = sg.Target(keep=0.1, listen=True, travel=0.001)  # as SparseTrainer does
        optimizer = sg.GatedAdamW(model, lr=2e-4, clip=1.0, target=target, steps=steps)
        Trainer(model, args, ..., optimizers=(optimizer, None), callbacks=[GateCallback()])

    Set `max_grad_norm=0` in the arguments then: `clip` leaves the gates out, the Trainer does not.

    Every entry of the log gets `kept`, the fraction of gated weights whose gates are open. A layer
    that closes is a warning.

    Args:
        finish: Whether to take off the gates at the end, so that everything after `train` works
            on an ordinary model.

    Raises:
        ValueError: When training begins, if the model has no gates or the optimizer does not
            move them.
    """

    def __init__(self, *, finish: bool = True) -> None:
        self.finish = finish
        self._census: Census | None = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, *, model: nn.Module, optimizer: Any, **_: Any
    ) -> None:
        """Checks that gates will move."""
        check_moved(model, optimizer)
        self._census = Census(model)

    def on_log(
        self, args: Any, state: Any, control: Any, *, model: nn.Module, logs: Any, **_: Any
    ) -> None:
        """Adds the kept weights to a log."""
        if gates(model) and logs is not None and "kept" not in logs:
            logs["kept"] = kept(model)
            if state.log_history:
                state.log_history[-1].setdefault("kept", logs["kept"])

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Warns of layers that have closed."""
        if self._census is not None:
            self._census.take()

    def on_save(self, args: Any, state: Any, control: Any, *, model: nn.Module, **_: Any) -> None:
        """Marks a checkpoint, so that `from_pretrained` reads it as it would be finished."""
        if gates(model) and args.should_save:
            mark(Path(args.output_dir) / f"{PREFIX}-{state.global_step}", holds="gates")

    def on_train_end(
        self, args: Any, state: Any, control: Any, *, model: nn.Module, **_: Any
    ) -> None:
        """Takes off the gates."""
        self._census = None
        if self.finish and gates(model):
            finish(model)


@torch.no_grad()
def kept(model: nn.Module) -> float:
    """The fraction of gated weights whose gates are open."""
    found = [gate.gate for gate in require_gates(model).values()]
    num_open = sum(int((gate > OPEN_ABOVE).sum()) for gate in found)
    return num_open / sum(gate.numel() for gate in found)


def check_moved(model: nn.Module, optimizer: Any) -> None:
    """Raises if the model has no gates, or the optimizer does not move them."""
    if not gates(model):
        raise ValueError(
            "the model has no gates: it never had any, or was finished by an earlier training; "
            "put them on with sparsegate.integrations.transformers.gate_pretrained(model), and "
            "build a new trainer"
        )
    inner = getattr(optimizer, "optimizer", optimizer)
    if not isinstance(inner, GateOptimizer):
        raise ValueError(
            f"the model has gates and {type(inner).__name__} does not move them as it should; "
            "use SparseTrainer, or pass optimizers=(sparsegate.GatedAdamW(model, ...), None)"
        )
