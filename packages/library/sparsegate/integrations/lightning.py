"""Sparse training with Lightning: callbacks that put gates on a module and move them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

try:
    from lightning.pytorch import Callback
except ImportError as error:
    raise ImportError(
        "sparsegate.integrations.lightning needs lightning 2; "
        'install it: pip install "sparsegate[lightning]"'
    ) from error

from sparsegate.gates import (
    OPEN_ABOVE,
    Census,
    Draw,
    Select,
    Start,
    finish,
    gate,
    gates,
    require_gates,
)
from sparsegate.optimizers import GateOptimizer, GateSGD
from sparsegate.price import Penalty
from sparsegate.target import Found, Target

from .gated_state import finished_state

__all__ = ["GateCallback", "GateMonitor", "callbacks", "finished_state"]


class GateMonitor(Callback):  # type: ignore[misc]
    """Logs `kept`, the fraction of gated weights that are left, and checks that gates can move.

    Lightning finds it by itself where sparsegate is installed. It does nothing to modules without
    gates. Use it with an optimizer that moves gates, such as `GatedAdamW`, in
    `configure_optimizers`; otherwise use `GateCallback`.

    Raises:
        ValueError: When training begins, if nothing moves the gates of a gated module.
    """

    _census: Census | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Checks that gates will move."""
        others = [each for each in trainer.callbacks if isinstance(each, GateCallback)]
        self._census = None
        if others or not gates(pl_module):
            return
        if not any(isinstance(each, GateOptimizer) for each in trainer.optimizers):
            raise ValueError(
                "the module has gates and nothing moves them; return sparsegate.GatedAdamW(self) "
                "from configure_optimizers, or add a GateCallback(target=...) to the trainer"
            )
        self._census = Census(pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Logs the kept weights as often as the trainer logs."""
        if self._census is not None:
            log_kept(self, trainer, pl_module)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Warns of layers that have closed."""
        if self._census is not None:
            self._census.take()


class GateCallback(Callback):  # type: ignore[misc]
    """Puts gates on a LightningModule, moves them after every step, and finishes it.

    Add it to a trainer::

        trainer = L.Trainer(max_epochs=10, callbacks=[GateCallback(target=sg.Target(keep=0.1))])
        trainer.fit(module, loader)  # an ordinary module; 90 % of the gated weights are zero

    The module need not change. Gates are left out of the optimizers that `configure_optimizers`
    returns, and so of weight decay and clipping. The trainer's checkpoints contain the gates and
    the state of the target. A resumed training equals an uninterrupted one on a CPU.

    `trainer.test(ckpt_path=...)` reads a checkpoint with gates as it would be finished. By hand:
    `module.load_state_dict(finished_state(checkpoint["state_dict"]))`.

    Args:
        target: What training should end on. For pretrained weights ask for `Target(listen=True)`:
            the default suits training from scratch.
        penalty: What open gates cost, instead of a target.
        lr: The gates' learning rate. With a target, a factor on the distance that gates travel; 1
            is right.
        select: Which weights get gates; every weight unless given.
        start: The gates' first values; `Constant(0.9)` unless given.
        draw: How masks come from gates; `Threshold()` unless given.
        judge: Returns the module's validation accuracy in percent, for `Target(max_drop=...)`.
        finish: Whether to take off the gates when `fit` ends.

    Raises:
        ValueError: If the module uses manual optimization, the number of steps is unknown, or the
            optimizer of the module moves gates itself.
    """

    def __init__(
        self,
        *,
        target: Target | None = None,
        penalty: Penalty | None = None,
        lr: float = 1.0,
        select: Select | None = None,
        start: Start | Mapping[str, Start] | None = None,
        draw: Draw | None = None,
        judge: Callable[[], float] | None = None,
        finish: bool = True,
    ) -> None:
        self.target, self.finish = target, finish
        self._where: dict[str, Any] = {"select": select, "start": start, "draw": draw}
        self._aim: dict[str, Any] = {"penalty": penalty, "lr": lr, "judge": judge}
        self._optimizer: GateSGD | None = None
        self._census: Census | None = None
        self._saved: dict[str, Any] | None = None
        self._hook: Any = None
        self._steps_done = 0

    @property
    def found(self) -> Found:
        """The price that the target has led to, and the weights that are left."""
        if self._optimizer is None:
            raise ValueError("there is nothing to report before trainer.fit(...) has begun")
        return self._optimizer.found

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Puts gates on the module before its optimizers are built."""
        if stage != "fit":
            self._hook = pl_module.register_load_state_dict_pre_hook(_finish_what_is_loaded)
            return
        if not pl_module.automatic_optimization:
            raise ValueError(
                "GateCallback needs automatic optimization; with manual optimization, step a "
                "sparsegate.GatedAdamW of your own"
            )
        if not gates(pl_module):
            gate(pl_module, **self._where)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Takes the gates out of the module's optimizers, and builds theirs."""
        if any(isinstance(each, GateOptimizer) for each in trainer.optimizers):
            raise ValueError(
                "the module's own optimizer moves gates, and so does GateCallback; keep one: "
                "without GateCallback, kept weights are logged all the same"
            )
        for optimizer in trainer.optimizers:
            _leave_out(optimizer, pl_module)
        steps = trainer.estimated_stepping_batches
        if self.target and not 0 < steps < math.inf:
            raise ValueError(
                f"a target needs the number of steps, which is {steps}; give the trainer "
                "max_steps or max_epochs, and a loader with a length"
            )
        settings = self._aim | ({"target": self.target, "steps": int(steps)} if self.target else {})
        self._optimizer, self._census = GateSGD(pl_module, **settings), Census(pl_module)
        self._steps_done = trainer.global_step
        if self._saved is not None:
            self._optimizer.load_state_dict(self._saved["gates"])
            self._steps_done, self._saved = self._saved["steps"], None

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Unscales the gates' gradients, if the precision scales the loss."""
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is None or self._optimizer is None:
            return
        params: list[Tensor] = self._optimizer.param_groups[0]["params"]
        for each in params:
            if each.grad is not None:
                each.grad.div_(scaler.get_scale())
                each.grad.nan_to_num_(0.0, 0.0, 0.0)  # of a step that the scaler skips

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Moves the gates if the batch has moved the weights."""
        if self._optimizer is None or trainer.global_step == self._steps_done:
            return
        self._steps_done = trainer.global_step
        self._optimizer.step()
        self._optimizer.zero_grad()
        log_kept(self, trainer, pl_module)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Warns of layers that have closed."""
        if self._census is not None:
            self._census.take()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Takes off the gates at the end of `fit`."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        if stage == "fit" and self.finish and gates(pl_module):
            finish(pl_module)

    def state_dict(self) -> dict[str, Any]:
        """The state of the gates' optimizer and of the target."""
        if self._optimizer is None:
            return {}
        return {"gates": self._optimizer.state_dict(), "steps": self._steps_done}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keeps the state until the optimizer is built."""
        self._saved = state_dict


def callbacks() -> list[Callback]:
    """What Lightning adds to every trainer, by the entry point of its callbacks."""
    return [GateMonitor()]


@torch.no_grad()
def log_kept(callback: Callback, trainer: Any, module: nn.Module) -> None:
    """Logs the fraction of gated weights that are left, at the steps that the trainer logs."""
    if trainer.global_step % trainer.log_every_n_steps:
        return
    found = [each.gate for each in require_gates(module).values()]
    num_open = torch.stack([(each > OPEN_ABOVE).sum() for each in found]).sum()
    callback.log("kept", num_open / sum(each.numel() for each in found), prog_bar=True)


def _leave_out(optimizer: torch.optim.Optimizer, module: nn.Module) -> None:
    """Takes the gates out of an optimizer that was given all parameters."""
    ours = {id(each.gate) for each in gates(module).values()}
    for group in optimizer.param_groups:
        group["params"] = [each for each in group["params"] if id(each) not in ours]


def _finish_what_is_loaded(module: nn.Module, state: dict[str, Any], *_: Any) -> None:
    """Reads a checkpoint with gates into a module without."""
    if gates(module):
        return
    finished = finished_state(state)
    if finished.keys() != state.keys():
        state.clear()
        state.update(finished)
