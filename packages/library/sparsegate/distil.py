"""Distillation: a student learns from a teacher's logits as well as from the labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, eq=False)
class Distil:
    """The loss of a student that listens to a teacher: any module that gives logits for the same inputs.

    >>> teacher = nn.Linear(4, 3)
    >>> inputs, labels = torch.ones(2, 4), torch.tensor([0, 2])
    >>> distil = Distil(teacher, temperature=4.0, share=0.5)
    >>> bool(distil(teacher(inputs), inputs, labels) < F.cross_entropy(teacher(inputs), labels))
    True

    `(1 - share) * cross-entropy + share * temperature^2 * KL(teacher || student)`, both sides softened by the
    temperature; the square keeps the gradients' scale (Hinton, Vinyals and Dean, 2015). The teacher is put in eval and
    takes no gradient. Called with logits, inputs and labels in the place of the loss; everything else stays as it is.
    """

    teacher: nn.Module
    """Any module that gives logits for the student's inputs."""

    temperature: float = 4.0
    """What logits are divided by; the higher, the more the teacher's small probabilities say."""

    share: float = 0.5
    """Weight of the teacher against the labels, in [0, 1]."""

    def __post_init__(self) -> None:
        check_distil(self.temperature, self.share)

    def __call__(
        self,
        logits: Float[Tensor, "batch classes"],
        inputs: Tensor,
        labels: Int64[Tensor, " batch"],
    ) -> Float[Tensor, ""]:
        """The loss of a batch."""
        return distil_loss(
            logits, self.logits(inputs), labels, temperature=self.temperature, share=self.share
        )

    @torch.no_grad()
    def logits(self, inputs: Tensor) -> Float[Tensor, "batch classes"]:
        """What the teacher says."""
        said: Tensor = self.teacher.eval()(inputs)
        return said


class Ensemble(nn.Module):
    """Several networks as one: the mean of their logits."""

    def __init__(self, *members: nn.Module) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, inputs: Tensor) -> Float[Tensor, "batch classes"]:
        """The mean logits."""
        return torch.stack([member(inputs) for member in self.members]).mean(0)


def distil_loss(
    logits: Float[Tensor, "*many batch classes"],
    teacher: Float[Tensor, "*many batch classes"],
    labels: Int64[Tensor, "*many batch"],
    *,
    temperature: float,
    share: float,
) -> Float[Tensor, ""]:
    """The mean over all examples of what `Distil` says, from logits of both sides.

    >>> zeros = torch.zeros(1, 2)
    >>> round(float(distil_loss(zeros, zeros, torch.tensor([0]), temperature=2.0, share=0.5)), 4)  # half of log 2
    0.3466
    """
    classes = logits.shape[-1]
    student = logits.reshape(-1, classes).float()
    hard = F.cross_entropy(student, labels.reshape(-1))
    soft = F.kl_div(
        F.log_softmax(student / temperature, 1),
        F.log_softmax(teacher.reshape(-1, classes).float() / temperature, 1),
        reduction="batchmean",
        log_target=True,
    )
    return (1 - share) * hard + share * temperature**2 * soft


def check_distil(temperature: float, share: float) -> None:
    """Refuses settings that are out of range."""
    if not temperature > 0:
        raise ValueError(f"temperature is above zero, got {temperature}")
    if not 0 <= share <= 1:
        raise ValueError(
            f"share is a fraction in [0, 1], got {share}; 0.5 listens to teacher and labels alike"
        )
