"""What is done otherwise begins with the first epoch in which the mask stands still."""

import pytest
import torch

from sparsegate_lab.batched import Late, ManyLoop, Member
from sparsegate_lab.batched.schedule_table import knob_table
from sparsegate_lab.batched.update import ManyRates, Stacked, move_
from sparsegate_lab.data import load_data
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run

LR, DECAY, ADAPT = 0, 4, 5


def test_learning_rate_and_decay_begin_again_when_the_mask_stands_still():
    run = Run(
        epochs=4, lr=0.1, weight_decay=1e-4, method=LearnedGates(freeze=0.6)
    )  # frozen from the third epoch on
    members = [Member(run, late=Late(lr=0.5, weight_decay=0.0, adapt=True)), Member(run)]
    table = torch.cat([knob_table(members, epoch, 10) for epoch in range(4)])
    torch.testing.assert_close(table[:30, :, 0], table[:30, :, 1])
    assert float(table[30, LR, 0]) == 0.5
    assert table[30:, LR, 0].diff().max() < 0
    assert table[30:, DECAY].tolist() == [[0.0, pytest.approx(1e-4)]] * 10
    assert float(table[30, ADAPT, 0]) == pytest.approx(1000)
    assert not table[:, ADAPT, 1].any()


def test_the_learning_rate_rises_at_first_if_asked():
    run = Run(epochs=4, method=LearnedGates(freeze=0.5))
    at_once, rising = (Member(run, late=Late(lr=0.5, warmup=warmup)) for warmup in (0.0, 0.25))
    table = torch.cat([knob_table([at_once, rising], epoch, 10) for epoch in range(4)])[20:, LR]
    assert (table[:5, 1] / table[:5, 0]).tolist() == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])
    assert torch.equal(table[5:, 0], table[5:, 1])


def test_the_size_of_gradients_is_unknown_until_steps_adapt():
    # The kernel of a GPU does not know it either: a member is the same on both.
    each = Stacked(torch.ones(1, 2), torch.zeros(1, 2), square=torch.zeros(1, 2))
    move_(each, torch.ones(1, 2), ManyRates(*torch.zeros(len(ManyRates._fields), 1)))
    assert not each.square.any()


def test_steps_that_adapt_begin_at_rest(small):
    run = small(epochs=3, method=LearnedGates(freeze=0.6))
    members = [
        Member(run, late=Late(lr=0.002, weight_decay=0.0, adapt=adapt), most=10_000)
        for adapt in (True, False)
    ]
    loop = ManyLoop(members, load_data(run.data), torch.device("cpu"))
    loop.train()
    before, after = ([each[number].loss for each in loop.epochs] for number in (1, 2))
    assert after[0] < 2 * before[0]
    loop._forget_speed_(2)
    speed = loop.stack.params["fc1.weight"].speed
    assert not speed[0].any()
    assert speed[1].any()


def test_steps_that_adapt_are_those_of_adam():
    torch.manual_seed(0)
    weight = torch.randn(2, 3, 4)
    alone = [each.clone().requires_grad_() for each in weight]
    adam = torch.optim.Adam(alone[:1], lr=0.01)
    sgd = torch.optim.SGD(alone[1:], lr=0.01, momentum=0.9)
    each = Stacked(weight, torch.zeros(2, 3, 4), square=torch.zeros(2, 3, 4))
    for step in range(1, 31):
        grad = torch.randn(2, 3, 4)
        alone[0].grad, alone[1].grad = grad[0].clone(), grad[1].clone()
        adam.step()
        sgd.step()
        # Adam corrects its mean gradient, too; here that is left to the learning rate.
        rates = dict.fromkeys(ManyRates._fields, torch.zeros(2))
        rates["momentum"] = torch.tensor([0.9, 0.9])
        rates["lr"] = torch.tensor([0.01 / (1 - 0.9**step), 0.01])
        rates["adapt"] = torch.tensor([1 / (1 - 0.999**step), 0.0])
        move_(each, grad, ManyRates(**rates))
    torch.testing.assert_close(each.weight, torch.stack([one.detach() for one in alone]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": 0.0},
        {"weight_decay": -1.0},
        {"adapt": True},
        {"lr": 0.1, "warmup": 1.0},
        {"warmup": 0.1},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(
        ValueError, match=r"learning rate|lr is (finite and )?above zero|warmup is a fraction"
    ):
        Late(**wrong)


def test_members_that_differ_in_it_have_folders_of_their_own():
    run = Run()
    assert (
        len({Member(run).name, Member(run, late=Late(lr=0.1)).name, Member(run, shed=True).name})
        == 3
    )
    assert Member(run, late=Late()).name == run.name
