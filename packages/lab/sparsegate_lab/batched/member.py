"""Describes one network of a batch of networks that are trained together."""

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

from .variants import AS_THEY_ARE, VARIANTS

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
    "front",
    "average",
    "target",
    "update",
    "fade",
)
FREE_OF_METHOD = ("penalty", "start", "keep", "gate_lr", "gate_momentum", "ramp", "freeze")


@dataclass(frozen=True)
class Late:
    """How the remaining weights are trained after the freeze; defaults change nothing.

    >>> Late(lr=0.02).about()
    ('from there on the learning rate began again at 0.02',)
    """

    lr: float | None = None
    """The learning rate restarts here when the gates freeze, and a cosine takes it to zero."""

    weight_decay: float | None = None
    """Weight decay from then on."""

    adapt: bool = False
    """Whether steps are divided by the gradients' size, as in Adam; needs a smaller lr."""

    warmup: float = 0.0
    """Fraction of that time in which the learning rate rises from zero."""

    vary: float = 0.0
    """Strength of elastic distortion, such as 1, instead of shifts; 0 for shifts."""

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < 1 or (self.warmup and self.lr is None):
            raise ValueError(
                "warmup is a fraction in [0, 1) and needs lr, "
                f"got warmup={self.warmup}, lr={self.lr}"
            )
        if (self.lr is not None and self.lr <= 0) or (
            self.weight_decay is not None and self.weight_decay < 0
        ):
            raise ValueError(
                f"lr is above zero and weight_decay zero or more, got {self.lr} and "
                f"{self.weight_decay}; None keeps the run's own"
            )
        if not 0 <= self.vary < math.inf:
            raise ValueError(
                f"vary is a finite strength, such as 1, or 0 for shifts, got {self.vary}"
            )
        if self.adapt and self.lr is None:
            raise ValueError("adapt needs a learning rate: Late(lr=0.002, adapt=True)")

    def about(self) -> tuple[str, ...]:
        """What the record should report."""
        said = []
        if self.lr is not None:
            said.append(
                f"from there on the learning rate began again at {self.lr}"
                f"{', as Adam' if self.adapt else ''}"
            )
        if self.warmup:
            said.append(f"it rose from zero in the first {self.warmup:g} of that time")
        if self.weight_decay is not None:
            said.append(f"from there on the weight decay was {self.weight_decay}")
        if self.vary:
            said.append(
                f"from there on {1 - AS_THEY_ARE:.0%} of the images were one of {VARIANTS} "
                "variants of theirs, turned, stretched, slanted and bent, "
                f"strength {self.vary:g}, and none moved by whole pixels"
            )
        return tuple(said)


@dataclass(frozen=True)
class Member:
    """A run, with options that only the batched trainer has."""

    run: Run[Any]

    most: int | None = None
    """Weights to keep: the price is steered to that number; a cut at the freeze makes it exact."""

    average: float = 0.0
    """Decay of a moving average of the weights after the freeze, such as 0.999; 0 for none."""

    share: float = 0.0
    """Share of the teacher in the loss, the labels have the rest; 0 for no teacher."""

    temperature: float = 1.0
    """Divides the logits of teacher and network before they are compared."""

    shed: bool = False
    """Whether units without readers are removed for good after every epoch, before the freeze."""

    late: Late = field(default_factory=Late)
    """How training changes once the gates are frozen."""

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
        """The name of the member's folder: the run's, with a hash of the options that are set."""
        options = {
            name: value
            for name, value in vars(self).items()
            if name != "run" and value != _DEFAULTS[name]
        }
        if not options:
            return self.run.name
        digest = hashlib.blake2b(
            json.dumps(options, sort_keys=True, default=vars).encode(), digest_size=4
        ).hexdigest()
        return f"{self.run.name}-{digest}"

    @property
    def freeze(self) -> float:
        """Fraction of training after which the mask is frozen; zero for a dense network."""
        return self.run.method.freeze if isinstance(self.run.method, LearnedGates) else 0.0

    @property
    def frozen_at(self) -> int:
        """The first epoch, counted from zero, in which the mask is frozen throughout."""
        return math.ceil(self.freeze * self.run.epochs - 1e-9)

    def about(self) -> tuple[str, ...]:
        """What the record should report, other than the run's settings."""
        said = [f"trained as one of many by the batched trainer, precision {self.run.precision}"]
        if self.most is not None:
            said.append(f"cut to {self.most:,} weights when the gates froze, dead paths removed")
        if self.average:
            said.append(
                f"the weights are their moving average since the gates froze, decay {self.average}"
            )
        if self.share:
            said.append(
                f"distilled: share {self.share} of a teacher's opinion, "
                f"temperature {self.temperature}"
            )
        if self.shed:
            said.append(
                "units that nobody read at the end of an epoch left for good "
                "while the gates still moved"
            )
        return (*said, *self.late.about())


_DEFAULTS = {each.name: each.default for each in dataclasses.fields(Member)} | {"late": Late()}


def check_agreement(members: Sequence[Member]) -> None:
    """Raises unless all members can be trained as one model; names the setting that differs."""
    if not members:
        raise ValueError("there are no members to train; give at least one run")
    runs = [member.run for member in members]
    if not isinstance(runs[0].method, Dense | LearnedGates):
        raise ValueError(
            "many members are trained dense or by learned gates, "
            f"got {type(runs[0].method).__name__}"
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
    """The strength of distortion of these members' images, 0 if none are distorted."""
    return max(member.late.vary for member in members)


def _check_known(run: Run[Any]) -> None:
    """Raises for settings that the batched trainer does not have."""
    for settings in (run, run.method):
        usual = type(settings)()
        for name in ALONE:
            if getattr(settings, name, None) != getattr(usual, name, None):
                raise ValueError(
                    f"many members are trained without {name}; "
                    "leave it out, or train them one by one"
                )


def _check_one(name: str, values: list[Any]) -> None:
    others = [value for value in values[1:] if value != values[0]]
    if others:
        raise ValueError(
            f"members trained together agree in {name}, got {values[0]!r} and {others[0]!r}; "
            "train them in two batches"
        )
