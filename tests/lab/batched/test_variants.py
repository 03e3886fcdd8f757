"""Images are varied once the mask stands still, and the teacher knows the variants."""

import pytest
import torch

from sparsegate_lab.batched import Late, ManyLoop, Member, Opinion, check_agreement, train_many
from sparsegate_lab.batched.inputs import ManyInputs
from sparsegate_lab.batched.variants import VARIANTS, drawn_variants, variant
from sparsegate_lab.data import load_data
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.models import MODELS
from sparsegate_lab.train import Run

CPU, VARIED = torch.device("cpu"), Late(vary=1.0)


def batches(members, data, epoch, count=2):
    inputs = ManyInputs(members, data.train, data.normalise, CPU)
    inputs.load(inputs.drawn(epoch))
    return [inputs.batch(torch.tensor([number])) for number in range(count)]


def test_a_member_sees_variants_from_the_freeze_on_and_only_if_asked(small, digits):
    data = load_data(str(digits))
    run = small(epochs=4, shift=1, method=LearnedGates(freeze=0.5))
    plain, varied = Member(run), Member(run, late=VARIED)
    for epoch in (0, 1):
        for mine, theirs in zip(
            batches([varied], data, epoch), batches([plain], data, epoch), strict=True
        ):
            assert torch.equal(mine.images, theirs.images)
    for both, alone in zip(
        batches([plain, varied], data, 2), batches([plain], data, 2), strict=True
    ):
        assert torch.equal(both.images[:100], alone.images)
        assert torch.equal(both.labels[100:], alone.labels)  # the same images in the same order
        assert torch.equal(both.chosen[100:] % 900, alone.chosen)
        assert not both.offsets[100:].any()


def test_what_a_member_sees_is_the_variant_of_its_number(digits, small):
    data = load_data(str(digits))
    member = Member(
        small(shift=0, method=Dense()), late=VARIED
    )  # a dense network has no mask to wait for
    (batch,) = batches([member], data, 0, 1)
    which = batch.chosen // 900
    assert 0.5 < float((which > 0).float().mean()) < 1
    for place in range(12):
        number, image = int(which[place]), int(batch.chosen[place] % 900)
        images = variant(data.train, number - 1, 1.0) if number else data.train.images
        assert torch.equal(batch.images[place], data.normalise(images[image][None])[0])
        assert batch.labels[place] == data.train.labels[image]


def test_every_epoch_and_seed_draws_other_variants_and_every_time_the_same():
    first, again, later, other = (
        drawn_variants(*each, 1000) for each in ((0, 5), (0, 5), (0, 6), (1, 5))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, later)
    assert not torch.equal(first, other)
    assert set(first.tolist()) == set(range(VARIANTS + 1))
    assert 0.15 < float((first == 0).float().mean()) < 0.25


def test_a_network_learns_from_varied_images_and_says_so(small, tmp_path):
    torch.manual_seed(0)
    run = small(epochs=4, method=LearnedGates(freeze=0.5))
    late = Late(lr=0.003, weight_decay=0.0, adapt=True, vary=1.0)
    member = Member(run, most=20_000, share=0.5, late=late)
    (record,) = train_many([member], folder=tmp_path, teacher=MODELS["lenet300"]())
    assert record.epochs[-1].loss < record.epochs[0].loss
    assert any("80% of the images were one of 24 variants" in note for note in record.notes)


def test_settings_that_do_not_fit_are_refused(small, digits):
    data = load_data(str(digits))
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="vary is a finite strength"):
            Late(vary=wrong)
    with pytest.raises(ValueError, match=r"agree in late.vary, got 1.0 and 2.0"):
        check_agreement(
            [Member(Run(), late=VARIED), Member(Run()), Member(Run(), late=Late(vary=2.0))]
        )
    opinion = Opinion(torch.zeros(900, 25, 10), 2)
    with pytest.raises(ValueError, match=r"images varied by 0.0, a member has 1.0"):
        ManyLoop([Member(small(), share=0.5, late=VARIED)], data, CPU, opinion=opinion)
