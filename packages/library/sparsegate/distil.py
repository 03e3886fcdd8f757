"""Distillation: the loss of a student that learns from a teacher as well as from labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, eq=False)
class Distil:
    """The loss of a student that learns from labels and from a teacher's logits.

    >>> teacher = nn.Linear(4, 3)
    >>> inputs, labels = torch.ones(2, 4), torch.tensor([0, 2])
    >>> distil = Distil(teacher, temperature=4.0, share=0.5)
    >>> bool(distil(teacher(inputs), inputs, labels) < F.cross_entropy(teacher(inputs), labels))
    True

    Call it with logits, inputs and labels instead of the cross-entropy. The loss is
    `(1 - share) * cross-entropy + share * temperature^2 * KL(teacher || student)`, with both sides
    softened by the temperature; its square keeps the gradients' scale (Hinton, Vinyals and Dean,
    2015). The teacher is put in eval mode and takes no gradient.

    Raises:
        ValueError: If the temperature or the share is out of range.
    """

    teacher: nn.Module
    """Any module that returns logits for the student's inputs."""

    temperature: float = 4.0
    """Divisor of the logits; higher ones emphasise the teacher's small probabilities."""

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
        """Returns the loss of a batch.

        Args:
            logits: The student's logits.
            inputs: The batch, for the teacher.
            labels: The batch's labels.
        """
        return distil_loss(
            logits, self.logits(inputs), labels, temperature=self.temperature, share=self.share
        )

    @torch.no_grad()
    def logits(self, inputs: Tensor) -> Float[Tensor, "batch classes"]:
        """Returns the teacher's logits for a batch."""
        logits: Tensor = self.teacher.eval()(inputs)
        return logits


class Ensemble(nn.Module):
    """Several networks as one teacher, which returns the mean of their logits.

    Args:
        members: Modules that return logits for the same inputs.
    """

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
    """The loss of `Distil` from the logits of both sides, averaged over all examples.

    >>> zeros, label = torch.zeros(1, 2), torch.tensor([0])
    >>> loss = distil_loss(zeros, zeros, label, temperature=2.0, share=0.5)
    >>> round(float(loss), 4)  # half of log 2
    0.3466
    """
    classes = logits.shape[-1]
    student = logits.reshape(-1, classes).float()
    hard = F.cross_entropy(student, labels.reshape(-1))
    wanted = teacher.reshape(-1, classes).float()
    soft = _divergences(student, wanted, temperature).sum() / len(student)
    return (1 - share) * hard + share * temperature**2 * soft


def soft_loss(
    logits: Float[Tensor, "batch classes"],
    teacher: Float[Tensor, "batch classes"],
    temperature: Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """The teacher's part of the loss of each example, each with a temperature of its own.

    >>> soft_loss(torch.tensor([[1.0, 3.0]]), torch.tensor([[1.0, 3.0]]), torch.tensor([2.0]))
    tensor([0.])
    """
    return _divergences(logits, teacher, temperature[:, None]).sum(1) * temperature**2


def _divergences(
    student: Float[Tensor, "batch classes"],
    teacher: Float[Tensor, "batch classes"],
    temperature: float | Float[Tensor, "batch 1"],
) -> Float[Tensor, "batch classes"]:
    """The terms of KL(teacher || student) of softened logits."""
    return F.kl_div(
        F.log_softmax(student / temperature, 1),
        F.log_softmax(teacher / temperature, 1),
        reduction="none",
        log_target=True,
    )


def check_distil(temperature: float, share: float) -> None:
    """Raises if a setting is out of range."""
    if not temperature > 0:
        raise ValueError(f"temperature is above zero, got {temperature}")
    if not 0 <= share <= 1:
        raise ValueError(
            f"share is a fraction in [0, 1], got {share}; 0.5 weighs teacher and labels equally"
        )
