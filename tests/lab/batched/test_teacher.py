"""A teacher asked once says what it would say at every step."""

import math

import pytest
import torch
from torch import nn

from sparsegate.distil import soft_loss
from sparsegate_lab.batched import ManyLoop, Member, Opinion, train_many
from sparsegate_lab.batched.inputs import VARIANTS, variant
from sparsegate_lab.data import Shift, load_data
from sparsegate_lab.models import MODELS


class Sums(nn.Module):
    """Says how bright the upper and the lower half are."""

    def forward(self, image):
        return (
            torch.stack([image[:, :, :14].sum((1, 2, 3)), image[:, :, 14:].sum((1, 2, 3))], 1) / 100
        )


def test_an_opinion_is_the_teacher_s_about_the_moved_image(digits):
    data = load_data(str(digits))
    opinion = Opinion.of(Sums(), data.train.part(0, 30), data.normalise, 2)
    chosen, offsets = torch.tensor([3, 29, 7]), torch.tensor([[-2, 2], [0, 0], [1, -1]])
    moved = Shift(2).apply(data.train.images[chosen], offsets)
    torch.testing.assert_close(opinion(chosen, offsets), Sums()(data.normalise(moved)))


def test_an_opinion_is_the_teacher_s_about_the_variant(digits):
    data = load_data(str(digits))
    split = data.train.part(0, 30)
    opinion = Opinion.of(Sums(), split, data.normalise, 1, vary=1.0)
    chosen = torch.tensor(
        [3, 30 + 3, 30 * VARIANTS + 29]
    )  # as it is, in its first and in its last variant
    images = torch.stack(
        [split.images[3], variant(split, 0, 1.0)[3], variant(split, VARIANTS - 1, 1.0)[29]]
    )
    said = opinion(chosen, torch.zeros(3, 2, dtype=torch.int64))
    torch.testing.assert_close(said, Sums()(data.normalise(images)))


def test_the_loss_by_hand():
    # the teacher says 3/4 and 1/4 at temperature 2, the network 1/2 and 1/2
    said = 2 * torch.tensor([[0.75, 0.25]]).log()
    divergence = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert float(soft_loss(torch.zeros(1, 2), said, torch.tensor([2.0]))) == pytest.approx(
        4 * divergence
    )


def test_members_listen_to_the_teacher_as_much_as_they_are_told(small, tmp_path):
    run = small(epochs=3, lr=0.1)
    torch.manual_seed(0)
    teacher = MODELS[
        "lenet300"
    ]()  # knows nothing: who listens to it alone does not learn the labels
    alone, half, only = train_many(
        [Member(run, share=share, temperature=2.0) for share in (0.0, 0.5, 1.0)],
        folder=tmp_path,
        teacher=teacher,
    )
    assert alone.validation > only.validation + 20
    assert only.epochs[-1].loss < 0.2 * alone.epochs[-1].loss
    assert half.epochs[-1].loss < alone.epochs[-1].loss
    plain = train_many([run], folder=tmp_path)
    assert [each.loss for each in plain[0].epochs] == pytest.approx(
        [each.loss for each in alone.epochs], rel=1e-4
    )


def test_a_share_without_a_teacher_and_a_teacher_without_a_share_are_errors(small, digits):
    data, cpu = load_data(str(digits)), torch.device("cpu")
    opinion = Opinion(torch.zeros(900, 1, 10), 0)
    with pytest.raises(ValueError, match="needs a teacher, got none"):
        ManyLoop([Member(small(), share=0.5)], data, cpu)
    with pytest.raises(ValueError, match=r"Member\.share is 0 for every member"):
        ManyLoop([Member(small())], data, cpu, opinion=opinion)
    with pytest.raises(ValueError, match="shifts of 0 pixels, a member has 2"):
        ManyLoop([Member(small(), share=0.5)], data, cpu, opinion=opinion)
