"""What all optimizers of gates share: a plan, a price, checks, and their state dicts."""

from __future__ import annotations

import abc
import logging
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from sparsegate.gates import OPEN_ABOVE, Mover, check_finite_gates, require_gates
from sparsegate.price import GatePlan, Penalty, PenaltyPlan
from sparsegate.sharded import local, whole
from sparsegate.target import Found, GroupedPlan, Target, TargetPlan, target_plan

LOGGER = logging.getLogger(__name__)
TRAVEL = 2.0
"""How far the price alone lowers a gate in training: five times from 0.9 to the threshold."""
CHECK_EVERY = 100  # steps between two searches for NaN gates, which wait for a GPU

Closure = Callable[[], Any]


class GateOptimizer(Optimizer, abc.ABC):
    """An optimizer whose gates follow a plan: a fixed penalty, or a target that finds the price."""

    plan: GatePlan
    moves_gates = True
    _steps_since_check = 0
    _begun = False
    _mover: Mover | None = None

    @property
    @abc.abstractmethod
    def _gate_group(self) -> dict[str, Any]:
        """The parameter group of the gates."""

    @abc.abstractmethod
    def _step(self) -> None:
        """Moves all parameters once."""

    @property
    def penalty(self) -> Penalty | None:
        """The price that gates pay; None with a target, which finds the price."""
        return self.plan.penalty if isinstance(self.plan, PenaltyPlan) else None

    @property
    def found(self) -> Found:
        """The price that the target has led to, and the weights that are left."""
        if not isinstance(self.plan, TargetPlan | GroupedPlan):
            raise ValueError("there is no target to report on; pass target= to the optimizer")
        return self.plan.found

    @property
    def price(self) -> float:
        """The factor on the penalty, 1 unless set."""
        return float(self._gate_group["price"])

    @price.setter
    def price(self, factor: float) -> None:
        if not 0 <= factor < math.inf:
            raise ValueError(f"price is a finite factor on the penalty, zero or more, got {factor}")
        self._gate_group["price"] = factor

    @property
    def gate_lr(self) -> float:
        """The gates' learning rate."""
        return float(self._gate_group["lr"])

    @gate_lr.setter
    def gate_lr(self, lr: float) -> None:
        self._gate_group["lr"] = lr

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:  # type: ignore[override]
        """Moves every parameter once.

        Args:
            closure: Computes the loss and its gradients; called first, with gradients enabled.

        Returns:
            The closure's loss; None without a closure.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not torch.compiler.is_compiling():
            self._check_begin()
            self._check_only_one_moves_the_gates()
        if not (self._step_supports_amp_scaling and self._is_skipped()):
            self._step()
        self.plan.after_step()
        if not torch.compiler.is_compiling():
            self._check_finite()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters and of the plan."""
        if (state := self.plan.state()) is not None:
            self._gate_group["control"] = state
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ValueError: If only one of the two optimizers has a target, or their targets differ.
        """
        saved = next((g["control"] for g in state_dict["param_groups"] if "control" in g), None)
        own = self.plan.state()
        if (saved is None) != (own is None):
            owner, other = "the saved optimizer", "this one"
            if saved is None:
                owner, other = other, owner
            raise ValueError(
                f"{owner} has a target and {other} has none, so training would go on with another "
                "plan; build the optimizer with the target= and steps= of the saved one"
            )
        super().load_state_dict(state_dict)
        if saved is not None:
            self.plan.load(saved)

    def __getstate__(self) -> dict[str, Any]:
        # For copy.deepcopy and pickle: torch's own leaves out attributes that it does not know.
        return super().__getstate__() | {
            "plan": self.plan,
            "_gates": self._gates,
            "_modules": self._modules,
        }

    def _set_plan(
        self,
        model: nn.Module,
        penalty: Penalty | None,
        target: Target | None,
        steps: int | None,
        judge: Callable[[], float] | None,
    ) -> None:
        """Makes the plan from an optimizer's arguments."""
        self._modules = list(require_gates(model).values())
        self._gates = {name: gate.gate for name, gate in require_gates(model).items()}
        self.plan = PenaltyPlan(
            penalty or Penalty(), [gate.numel() for gate in self._gates.values()]
        )
        self._choose_lr(None if target else steps)
        if not target:
            if steps is not None:
                self._warn_if_nothing_closes(steps)
            return
        if penalty is not None:
            raise ValueError(
                "a target finds the price; leave penalty out, or hold a price: Target(price=...)"
            )
        if steps is None:
            raise ValueError("a target needs steps=, the number of steps of the whole training")
        if any(
            not gate.gate.requires_grad and not gate.whole for gate in require_gates(model).values()
        ):
            raise ValueError(
                "a target moves all gates, and some have requires_grad=False; "
                "leave their layers out with Select(skip=...)"
            )
        momentum = self._gate_group["momentum"]
        self.plan = target_plan(model, target, steps=steps, judge=judge, momentum=momentum)

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Makes a GradScaler call `step` even for skipped steps: a target counts all of them."""
        return isinstance(self.plan, TargetPlan | GroupedPlan)

    def _is_skipped(self) -> bool:
        """Whether a GradScaler found infinite gradients, which are dropped; unscales the others."""
        if bool(getattr(self, "found_inf", False)):
            self.zero_grad()
            return True
        if (scale := getattr(self, "grad_scale", None)) is not None:
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        local(param.grad).div_(scale)
        return False

    def _check_begin(self) -> None:
        """Raises at the first step if gates were loaded from a checkpoint and the plan was not."""
        if self._begun:
            return
        begins = isinstance(self.plan, TargetPlan | GroupedPlan) and self.plan.done == 0
        if begins and any(gate.is_loaded() for gate in self._modules):
            raise ValueError(
                "the gates are those of a checkpoint, and this optimizer begins at step 0: load "
                "its saved state too, optimizer.load_state_dict(...); to begin anew, gate the "
                "finished model"
            )
        self._begun = True
        for gate in self._modules:
            gate.moved = True

    def _check_only_one_moves_the_gates(self) -> None:
        if self._mover is None:
            self._mover = Mover(self._gate_group["params"])
        self._mover.check()

    def _check_finite(self) -> None:
        """Now and then raises if any gate has become NaN."""
        self._steps_since_check += 1
        if self._steps_since_check < CHECK_EVERY:
            return
        self._steps_since_check = 0
        check_finite_gates(self._gates)

    def _choose_lr(self, steps: int | None) -> None:
        """Sets a learning rate that was not given: it follows from the steps, if they are known."""
        group, penalty = self._gate_group, self.penalty
        if group["lr"] is not None:
            return
        self.gate_lr = 1.0
        if steps is not None and penalty is not None and penalty.count:
            sizes = [gate.numel() for gate in self._gates.values()]
            slopes = replace(penalty, bimodal=0.0).slopes(sizes)
            pairs = zip(slopes, sizes, strict=True)
            mean = sum(slope.base * size for slope, size in pairs) / sum(sizes)
            self.gate_lr = TRAVEL * (1 - group["momentum"]) / (mean * steps)
            LOGGER.info("the gates' learning rate is %.3g for %s steps", group["lr"], f"{steps:,}")

    def _warn_if_nothing_closes(self, steps: int) -> None:
        """Warns if the price is too low to close any gate in this many steps."""
        group, (penalty, gates) = self._gate_group, (self.penalty, list(self._gates.values()))
        assert penalty is not None
        if not penalty.count:
            return
        # The momentum multiplies the way of a constant slope, which at 0.5 and above is at most
        # base + tilt / 2.
        reach = group["lr"] * steps / (1 - group["momentum"])
        slopes = penalty.slopes([gate.numel() for gate in gates])
        ways = [reach * (slope.base + slope.tilt * OPEN_ABOVE) for slope in slopes]
        gaps = [
            float(whole(torch.where(gate > OPEN_ABOVE, gate, math.inf).amin())) - OPEN_ABOVE
            for gate in (gate.detach() for gate in gates)
        ]
        needed = min(gap / way if way else math.inf for gap, way in zip(gaps, ways, strict=True))
        if 1 < needed < math.inf:
            warnings.warn(
                f"the price alone lowers gates by at most {max(ways):.2g} in {steps:,} steps, and "
                f"the lowest open gate is {min(gaps):.2g} above the threshold: few weights or none "
                f"will be removed; multiply the gates' learning rate or Penalty.count by "
                f"{needed:.2g} or more, or pass target=Target(keep=...) with steps={steps}",
                UserWarning,
                stacklevel=4,
            )
