"""SparseTrainer: the Trainer of transformers with gates on the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from transformers import Trainer

from sparsegate.gates import Select, Start, gates, weights
from sparsegate.optimizers import GatedAdamW
from sparsegate.price import Penalty
from sparsegate.target import Target

from .callback import GateCallback, kept
from .pretrained import gate_pretrained, pretrained_target
from .saved import save_pretrained

ADAMW = ("adamw_torch", "adamw_torch_fused")


class SparseTraining:
    """What `SparseTrainer` adds to `Trainer`; put it before any other Trainer.

    For example, `class SparseSeq2Seq(SparseTraining, Seq2SeqTrainer): ...`.

    Args:
        *args: What the Trainer takes.
        target: What training should end on; gates follow the loss unless it says otherwise.
        penalty: What open gates cost, instead of a target.
        gate_lr: The gates' learning rate. With a target, a factor on the distance that gates
            travel; 1 is right.
        select: Which weights get gates; see `gate_pretrained`.
        start: The gates' first values; see `gate_pretrained`.
        judge: Returns the model's validation accuracy in percent, for `Target(max_drop=...)`.
        finish: Whether to take off the gates when training ends.
        **kwargs: What the Trainer takes.
    """

    args: Any
    model: nn.Module
    model_init: Any
    optimizer: Any
    state: Any
    accelerator: Any
    is_in_train: bool
    add_callback: Any
    push_to_hub: Any
    get_decay_parameter_names: Any

    def __init__(
        self,
        *args: Any,
        target: Target | None = None,
        penalty: Penalty | None = None,
        gate_lr: float = 1.0,
        select: Select | None = None,
        start: Start | Mapping[str, Start] | None = None,
        judge: Callable[[], float] | None = None,
        finish: bool = True,
        **kwargs: Any,
    ) -> None:
        self._where: dict[str, Any] = {"select": select, "start": start}
        self._target = target
        self._aim: dict[str, Any] = {"penalty": penalty, "gate_lr": gate_lr, "judge": judge}
        super().__init__(*args, **kwargs)
        if self.model_init is None:
            self._gate_(self.model)
        self.add_callback(GateCallback(finish=finish))

    def call_model_init(self, trial: Any = None) -> nn.Module:
        """The model of `model_init`, with gates."""
        return self._gate_(super().call_model_init(trial))  # type: ignore[misc]

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """`GatedAdamW` with the arguments' settings and the Trainer's choice of what decays."""
        if self.optimizer is None:
            self.optimizer = self._gated_adamw(self.model if model is None else model)
        optimizer: torch.optim.Optimizer = self.optimizer
        return optimizer

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Logs as the Trainer does, with `kept`, the fraction of gated weights that are left."""
        if self.is_in_train and gates(self.model):
            logs["kept"] = kept(self.model)
        super().log(logs, *args, **kwargs)  # type: ignore[misc]

    def save_model(
        self, output_dir: str | os.PathLike[str] | None = None, _internal_call: bool = False
    ) -> None:
        """Saves as the Trainer does; outside of checkpoints, finished and with a sparse file."""
        super().save_model(output_dir, True)  # type: ignore[misc]
        given = self.args
        if _internal_call or not given.should_save:
            return
        save_pretrained(self.model, output_dir or given.output_dir)
        if given.push_to_hub:
            self.push_to_hub(commit_message="Model save", revision=given.hub_revision)

    def _gate_(self, model: nn.Module) -> nn.Module:
        gated = model if gates(model) else gate_pretrained(model, **self._where)
        # Before a checkpoint is loaded: its gates may be closed, and the target stays the same.
        self._aim["target"] = self._target and pretrained_target(self._target, gated)
        return gated

    def _gated_adamw(self, model: nn.Module) -> GatedAdamW:
        given = self.args
        if given.optim not in ADAMW:
            raise ValueError(
                f"SparseTrainer trains with AdamW, so optim is one of {', '.join(ADAMW)}, got "
                f"{given.optim}; or pass optimizers=(...) with a sparsegate.GatedSGD"
            )
        steps = self.state.max_steps or None
        return GatedAdamW(
            model,
            lr=given.learning_rate,
            betas=(given.adam_beta1, given.adam_beta2),
            eps=given.adam_epsilon,
            weight_decay=given.weight_decay,
            fused=given.optim == "adamw_torch_fused" or None,
            params=self._groups(model),
            steps=steps,
            **self._aim,
        )

    def _groups(self, model: nn.Module) -> list[dict[str, Any]]:
        """The Trainer's groups of parameters, without the gates."""
        decaying = set(self.get_decay_parameter_names(model))
        ours = {id(each) for each in weights(model) if each.requires_grad}
        named = [(name, each) for name, each in model.named_parameters() if id(each) in ours]
        parts = [
            ([each for name, each in named if name in decaying], self.args.weight_decay),
            ([each for name, each in named if name not in decaying], 0.0),
        ]
        return [{"params": params, "weight_decay": decay} for params, decay in parts if params]

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        # Overrides what the Trainer calls: its norm would count the gates' gradients.
        return self.accelerator.clip_grad_norm_(weights(model), self.args.max_grad_norm)


class SparseTrainer(SparseTraining, Trainer):  # type: ignore[misc]
    """The Trainer of transformers, which puts gates on its model and trains weights and gates.

    Use it instead of `Trainer`::

        trainer = SparseTrainer(
            model=model, args=args, train_dataset=data, target=sg.Target(keep=0.1)
        )
        trainer.train()
        trainer.save_model("out")  # an ordinary model, and model.sparse.safetensors

    Differences from `Trainer`:

    - The model gets gates when the trainer is built, unless it has some (`gate_pretrained`).
    - The target listens (`Target(listen=True, travel=0.001)`): gates follow how much the loss needs
      each weight, and hardly move besides. That suits pretrained weights; the default of `Target`
      suits training from scratch. A target does not change if it has `travel`, `grade`, `listen`,
      `price` or `path`, or if the model starts with closed gates.
    - The optimizer is `GatedAdamW`. The weights that decay are those that decay in `Trainer`.
    - Clipping leaves the gates out.
    - Evaluation is that of the network as it would be finished at that step.
    - Checkpoints contain the gates, so a resumed training equals an uninterrupted one.
      `from_pretrained` reads a checkpoint as it would be finished.
    - When training ends, the model is finished in place.

    Args:
        *args: What `Trainer` takes.
        target: What training should end on; gates follow the loss unless it says otherwise.
        penalty: What open gates cost, instead of a target.
        gate_lr: The gates' learning rate. With a target, a factor on the distance that gates
            travel; 1 is right.
        select: Which weights get gates; see `gate_pretrained`.
        start: The gates' first values; see `gate_pretrained`.
        judge: Returns the model's validation accuracy in percent, for `Target(max_drop=...)`.
        finish: Whether to take off the gates when training ends.
        **kwargs: What `Trainer` takes.
    """
