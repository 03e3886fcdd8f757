"""After the last epoch of a run the learning rate begins again, and steps that adapt begin at rest."""

import dataclasses

import pytest
import torch

from sparsegate.data import load_data
from sparsegate.many import Again, Late, ManyLoop, Member, check_agreement, train_many
from sparsegate.many.knobs import knob_table
from sparsegate.methods import Dense, LearnedGates
from sparsegate.train import Run

LR, GATE_LR, DECAY, ADAPT = 0, 1, 4, 5
GATED = LearnedGates(freeze=0.5)
ADAPTED = Late(lr=0.5, weight_decay=0.0, adapt=True, warmup=0.2)


def test_the_learning_rate_begins_again_after_the_last_epoch():
    run = Run(epochs=4, method=GATED)
    members = [Member(run, late=late, again=Again(2, lr=0.1)) for late in (ADAPTED, Late())]
    table = torch.cat([knob_table(members, epoch, 10) for epoch in range(6)])
    before = torch.cat(
        [knob_table([dataclasses.replace(each, again=Again()) for each in members], n, 10) for n in range(4)]
    )
    torch.testing.assert_close(table[:40], before)
    rising, falling = table[40:45, LR, 0], table[44:, LR, 0]
    assert float(rising[0]) == 0.0
    assert rising.diff().min() > 0
    assert falling.diff().max() < 0
    assert float(table[40, LR, 1]) == pytest.approx(0.1)
    assert float(table[59, LR].max()) < 0.002
    assert float(table[40, ADAPT, 0]) == pytest.approx(1000)
    assert table[40:, DECAY].tolist() == [[0.0, pytest.approx(run.weight_decay)]] * 20
    assert not table[40:, GATE_LR].any()


@pytest.mark.parametrize("late", [Late(), dataclasses.replace(ADAPTED, lr=0.002)], ids=["as before", "adapted"])
def test_everything_up_to_the_last_epoch_is_as_without(small, tmp_path, late):
    run = small(epochs=3, shift=2, method=GATED)
    alone = Member(run, most=5000, late=late)
    again = dataclasses.replace(alone, again=Again(2, lr=0.002))
    (without,), (longer,) = (train_many([each], folder=tmp_path) for each in (alone, again))
    assert longer.epochs[:3] == without.epochs
    assert len(longer.epochs) == 5
    assert longer.epochs[-1].loss < without.epochs[-1].loss
    assert longer.kept <= without.kept
    assert again.name != alone.name
    assert any(note.startswith("2 epochs more") for note in longer.notes)
    assert not any("epochs more" in note for note in without.notes)


def test_steps_begin_at_rest(small):
    run = small(epochs=2, method=GATED)
    members = [
        Member(run, most=5000, late=late, again=Again(1)) for late in (dataclasses.replace(ADAPTED, lr=0.002), Late())
    ]
    loop = ManyLoop(members, load_data(run.data), torch.device("cpu"))
    loop.train()
    loop._rest_(2)
    for each in (loop.stack.params["fc1.weight"], loop.stack.active["fc1.weight"]):
        assert not each.speed[0].any()
        assert not each.square[0].any()
        assert each.speed[1].any()


def test_a_dense_network_may_have_it_too(small, tmp_path):
    (record,) = train_many([Member(small(epochs=1, method=Dense()), again=Again(1, lr=0.01))], folder=tmp_path)
    assert len(record.epochs) == 2


def test_members_agree_in_how_many_there_are():
    with pytest.raises(ValueError, match=r"agree in again\.epochs, got 0 and 2"):
        check_agreement([Member(Run()), Member(Run(), again=Again(2))])


@pytest.mark.parametrize("wrong", [{"epochs": -1}, {"lr": 0.0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="epochs is zero or more and lr above zero"):
        Again(**wrong)
