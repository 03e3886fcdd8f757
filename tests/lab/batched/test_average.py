"""The moving average begins when the gates freeze and is what the network ends with."""

import pytest
import torch

from sparsegate_lab.batched import ManyLoop, Member
from sparsegate_lab.batched.schedule_table import knob_table
from sparsegate_lab.data import load_data
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run


def test_until_the_gates_freeze_the_average_is_the_weights_themselves():
    run = Run(epochs=4, method=LearnedGates(freeze=0.5))
    table = torch.cat(
        [knob_table([Member(run, average=0.9), Member(run)], epoch, 10) for epoch in range(4)]
    )
    assert table[:21, 3, 0].tolist() == [1.0] * 21
    assert table[21:, 3, 0].tolist() == pytest.approx([0.1] * 19)
    assert table[:, 3, 1].tolist() == [1.0] * 40


def test_the_average_is_that_of_the_steps(small):
    run = small(epochs=2, method=LearnedGates(freeze=0.5))
    loop = ManyLoop(
        [Member(run, average=0.9), Member(run)], load_data(run.data), torch.device("cpu")
    )
    bias, seen = loop.stack.params["fc3.bias"], []
    loop.watch.stepped = lambda step: seen.append(bias.weight[0].clone())
    loop.train()
    wanted = seen[9]  # the tenth step, the first after half of eighteen, begins the average
    for each in seen[10:]:
        wanted = 0.9 * wanted + 0.1 * each
    torch.testing.assert_close(loop.stack.finished()["fc3.bias"][0], wanted)
    torch.testing.assert_close(loop.stack.finished()["fc3.bias"][1], seen[-1])
