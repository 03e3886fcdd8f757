"""One network among many that are trained together, with what only the batched trainer can do for it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.train import Run

from .finetune import Late

FREE = ("seed", "lr", "momentum", "weight_decay", "shift", "method")
ALONE = (
    "warmup",
    "stop",
    "flip",
    "crop",
    "jitter",
    "erase",
    "clip",
    "label_smoothing",
    "normalise",
    "distil",
    "average",
    "target",
    "update",
    "fade",
)
FREE_OF_METHOD = ("penalty", "start", "keep", "gate_lr", "gate_momentum", "ramp", "freeze")


@dataclass(frozen=True)
class Member:
    """A run, and what is done to it beside what `train` does."""

    run: Run[Any]

    most: int | None = None
    """Weights to keep: the price is moved towards that number, and what is more is cut when the gates freeze."""

    average: float = 0.0
    """Decay of a moving average of the weights over the steps after the gates froze, such as 0.999; 0 for none."""

    share: float = 0.0
    """Share of the teacher's opinion in the loss, the labels have the rest; 0 for no teacher."""

    temperature: float = 1.0
    """Divides the logits of teacher and network before they are compared."""

    shed: bool = False
    """Whether a unit that nobody reads at the end of an epoch leaves for good; alone it might have come back."""

    late: Late = field(default_factory=Late)
    """What is done otherwise once the gates froze."""

    def __post_init__(self) -> None:
        if self.most is not None and self.most < 1:
            raise ValueError(f"most is a number of weights, at least 1, got {self.most}")
        if not (0 <= self.average < 1 and 0 <= self.share <= 1 and self.temperature > 0):
            raise ValueError(
                "average is in [0, 1), share in [0, 1] and temperature above zero, "
                f"got {self.average}, {self.share} and {self.temperature}"
            )

    @property
    def name(self) -> str:
        """The run's name, with a hash of what is done beside if anything is: the member's folder."""
        beside = {
            name: value
            for name, value in vars(self).items()
            if name != "run" and value != _DEFAULTS[name]
        }
        if not beside:
            return self.run.name
        digest = hashlib.blake2b(
            json.dumps(beside, sort_keys=True, default=vars).encode(), digest_size=4
        ).hexdigest()
        return f"{self.run.name}-{digest}"

    @property
    def freeze(self) -> float:
        """Fraction of training after which the mask stands still; a dense network has none to wait for."""
        return self.run.method.freeze if isinstance(self.run.method, LearnedGates) else 0.0

    @property
    def frozen_at(self) -> int:
        """The first epoch in which the mask stands still all the time, counted from zero."""
        return math.ceil(self.freeze * self.run.epochs - 1e-9)

    def about(self) -> tuple[str, ...]:
        """What a reader of the record should know beside the run's settings."""
        said = [f"trained as one of many by the batched trainer, precision {self.run.precision}"]
        if self.most is not None:
            said.append(f"cut to {self.most:,} weights when the gates froze, dead paths removed")
        if self.average:
            said.append(
                f"the weights are their moving average since the gates froze, decay {self.average}"
            )
        if self.share:
            said.append(
                f"distilled: share {self.share} of a teacher's opinion, temperature {self.temperature}"
            )
        if self.shed:
            said.append(
                "units that nobody read at the end of an epoch left for good while the gates still moved"
            )
        return (*said, *self.late.about())


_DEFAULTS = {each.name: each.default for each in dataclasses.fields(Member)} | {"late": Late()}


def check_agreement(members: Sequence[Member]) -> None:
    """Raises unless all members can be trained as one model, and names the setting in which they differ."""
    if not members:
        raise ValueError("there are no members to train; give at least one run")
    runs = [member.run for member in members]
    if not isinstance(runs[0].method, Dense | LearnedGates):
        raise ValueError(
            f"many members are trained dense or by learned gates, got {type(runs[0].method).__name__}"
        )
    for name in (each.name for each in dataclasses.fields(Run)):
        if name not in FREE:
            _check_one(name, [getattr(run, name) for run in runs])
    _check_one("method", [type(run.method).__name__ for run in runs])
    for name in (each.name for each in dataclasses.fields(runs[0].method)):
        if name not in FREE_OF_METHOD:
            _check_one(name, [getattr(run.method, name) for run in runs])
    _check_one("late.vary", [member.late.vary for member in members if member.late.vary])
    _check_known(runs[0])
    if runs[0].compile or runs[0].precision == "fp16":
        raise ValueError("many members are trained with compile=False and precision fp32 or bf16")


def strength(members: Sequence[Member]) -> float:
    """How much the images of some of these members are varied, 0 if nobody's."""
    return max(member.late.vary for member in members)


def _check_known(run: Run[Any]) -> None:
    """Raises for settings that only the loop of one network knows."""
    for settings in (run, run.method):
        usual = type(settings)()
        for name in ALONE:
            if getattr(settings, name, None) != getattr(usual, name, None):
                raise ValueError(
                    f"many members are trained without {name}; leave it out, or train one by one"
                )


def _check_one(name: str, values: list[Any]) -> None:
    others = [value for value in values[1:] if value != values[0]]
    if others:
        raise ValueError(
            f"members trained together agree in {name}, got {values[0]!r} and {others[0]!r}; train them in two batches"
        )
