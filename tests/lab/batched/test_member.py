"""Members agree where they must, and say where they do not."""

import dataclasses

import pytest

from sparsegate.price import Penalty
from sparsegate_lab.batched import Member, check_agreement
from sparsegate_lab.methods import Dense, LearnedGates, Magnitude
from sparsegate_lab.train import Run


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Run(model="lenet300"), "agree in model, got 'lenet5' and 'lenet300'"),
        (Run(data="elsewhere"), "agree in data"),
        (Run(epochs=3), "agree in epochs, got 20 and 3; train them in two batches"),
        (Run(batch_size=64), "agree in batch_size"),
        (Run(precision="bf16"), "agree in precision"),
        (Run(method=Dense()), "agree in method, got 'LearnedGates' and 'Dense'"),
        (Run(method=LearnedGates(draw="sample")), "agree in draw"),
        (Run(method=LearnedGates(only=("fc1.*",))), "agree in only"),
    ],
)
def test_a_setting_in_which_members_may_not_differ_is_named(other, message):
    with pytest.raises(ValueError, match=message):
        check_agreement([Member(Run()), Member(other)])


def test_members_may_differ_in_everything_else():
    method = LearnedGates(
        penalty=Penalty(count=9.0, per="layer"), start=0.9, gate_lr=1.0, ramp=0.1, freeze=0.5
    )
    other = Run(seed=3, lr=0.1, momentum=0.5, weight_decay=0.0, shift=0, method=method)
    check_agreement(
        [Member(Run()), Member(other, most=100, average=0.9, share=0.5, temperature=4.0)]
    )


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (Run(method=Magnitude()), "dense or by learned gates, got Magnitude"),
        (Run(compile=True), "compile=False"),
        (Run(precision="fp16"), "fp32 or bf16"),
    ],
)
def test_what_many_cannot_do_is_said(run, message):
    with pytest.raises(ValueError, match=message):
        check_agreement([Member(run)])


def test_nobody_is_an_error():
    with pytest.raises(ValueError, match="no members"):
        check_agreement([])


@pytest.mark.parametrize(
    "options", [{"most": 0}, {"average": 1.0}, {"share": 1.1}, {"temperature": 0.0}]
)
def test_options_out_of_range_are_errors(options):
    with pytest.raises(ValueError, match="got"):
        Member(Run(), **options)


def test_a_plain_member_has_the_name_of_its_run_and_others_one_of_their_own():
    run = Run()
    names = {
        Member(run).name,
        Member(run, most=9).name,
        Member(run, share=0.5).name,
        Member(run, average=0.9).name,
    }
    assert run.name in names
    assert len(names) == 4
    assert Member(run, most=9).name == Member(dataclasses.replace(run), most=9).name
