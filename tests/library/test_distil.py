"""A student's loss is the labels' and the teacher's, in the asked proportion."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.distil import Distil, Ensemble, distil_loss

INPUTS = torch.linspace(-1, 1, 12).reshape(3, 4)
LABELS = torch.tensor([0, 1, 1])


def layer(seed: int) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(4, 2)


def test_by_hand():
    # student 1/2, 1/2; teacher 3/4, 1/4 at temperature 2; KL = 3/4 log(3/2) + 1/4 log(1/2)
    student, teacher = torch.zeros(1, 2), 2 * torch.tensor([[0.75, 0.25]]).log()
    divergence = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    found = distil_loss(student, teacher, torch.tensor([1]), temperature=2.0, share=0.25)
    assert float(found) == pytest.approx(0.75 * math.log(2) + 0.25 * 4 * divergence)


def test_without_a_share_the_teacher_says_nothing():
    student = layer(0)
    assert torch.equal(
        Distil(layer(1), share=0.0)(student(INPUTS), INPUTS, LABELS),
        F.cross_entropy(student(INPUTS), LABELS),
    )


def test_the_teacher_is_in_eval_and_takes_no_gradient():
    teacher, student = nn.Sequential(layer(1), nn.Dropout(0.9)), layer(0)
    distil = Distil(teacher, share=1.0)
    losses = [distil(student(INPUTS), INPUTS, LABELS) for _ in range(2)]
    losses[0].backward()
    assert losses[0] == losses[1]
    assert teacher[0].weight.grad is None
    assert student.weight.grad.abs().sum() > 0


def test_a_student_alone_with_its_teacher_becomes_like_it():
    teacher, student = layer(1), layer(0)
    distil, optimizer = (
        Distil(teacher, temperature=2.0, share=1.0),
        torch.optim.SGD(student.parameters(), lr=0.5),
    )
    for _ in range(300):
        optimizer.zero_grad()
        distil(student(INPUTS), INPUTS, LABELS).backward()
        optimizer.step()
    assert torch.allclose(student(INPUTS).softmax(1), teacher(INPUTS).softmax(1), atol=1e-2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "above zero"),
        ({"share": 1.5}, "a fraction in"),
        ({"share": -0.1}, "a fraction in"),
    ],
)
def test_settings_out_of_range_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        Distil(layer(0), **options)


def test_an_ensemble_says_the_mean():
    one, other = layer(0), layer(1)
    torch.testing.assert_close(Ensemble(one, other)(INPUTS), (one(INPUTS) + other(INPUTS)) / 2)
