"""Weights from elsewhere go in by name, or the message says which do not fit."""

import pytest
import torch
from torch import nn

from sparsegate_lab.models import ResNet20, load_weights_


def network(classes=10, width=4):
    return nn.Sequential(nn.Linear(3, width), nn.Linear(width, classes))


def test_all_tensors_are_taken():
    source, target = network(), network()
    load_weights_(target, source.state_dict())
    assert all(
        torch.equal(one, other)
        for one, other in zip(source.parameters(), target.parameters(), strict=True)
    )


@pytest.mark.parametrize("pattern", ["1", "1.*"])
def test_a_new_head_stays_fresh_and_the_rest_is_loaded(pattern):
    source, target = network(classes=1000), network()
    head = target[1].weight.clone()
    load_weights_(target, source.state_dict(), new_head=(pattern,))
    assert torch.equal(target[0].weight, source[0].weight)
    assert torch.equal(target[1].weight, head)


def test_weights_without_a_head_load_if_it_is_new():
    source = {
        name: tensor for name, tensor in network().state_dict().items() if name.startswith("0.")
    }
    target = network()
    load_weights_(target, source, new_head=("1",))
    assert torch.equal(target[0].weight, source["0.weight"])


def test_half_precision_becomes_single():
    target = network()
    load_weights_(target, {name: tensor.half() for name, tensor in network().state_dict().items()})
    assert target[0].weight.dtype == torch.float32


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_by_name(value):
    source, target = network().state_dict(), network()
    source["1.bias"][3] = value
    with pytest.raises(
        ValueError, match=r"expected finite weights, got NaN or infinity in 1\.bias; get"
    ):
        load_weights_(target, source)
    load_weights_(target, source, new_head=("1",))


def test_what_does_not_fit_is_named_and_nothing_is_loaded():
    target = network()
    before = target[0].weight.clone()
    tensors = {
        "0.weight": torch.zeros(4, 3),
        "0.bias": torch.zeros(5),
        "1.weight": torch.zeros(10, 4),
        "2.x": before,
    }
    with pytest.raises(ValueError, match="the weights are not those of this model") as caught:
        load_weights_(target, tensors)
    for words in (
        "missing: 1.bias",
        "unexpected: 2.x",
        "wrong shapes: 0.bias is (5,), wanted (4,)",
    ):
        assert words in str(caught.value)
    assert torch.equal(target[0].weight, before)


def test_a_head_for_other_classes_is_answered_with_the_flag_that_replaces_it():
    with pytest.raises(
        ValueError,
        match=r"1\.weight is \(1000, 4\), wanted \(10, 4\).*--new-head 1 keeps the initial",
    ):
        load_weights_(network(), network(classes=1000).state_dict())


@pytest.mark.parametrize("lacking", [(), ("1.bias",), ("1.weight", "1.bias")])
def test_the_flag_is_not_named_where_unexpected_names_would_still_be_there(lacking):
    tensors = {
        name: tensor for name, tensor in network().state_dict().items() if name not in lacking
    }
    with pytest.raises(ValueError, match=r"unexpected: head\.weight") as caught:
        load_weights_(network(), {**tensors, "head.weight": torch.zeros(10, 4)})
    assert "--new-head" not in str(caught.value)


def test_the_flag_that_is_named_cures_what_it_is_named_for():
    tensors = {**network(classes=1000).state_dict(), "1.scale": torch.ones(1)}  # of the same layer
    with pytest.raises(
        ValueError, match=r"unexpected: 1\.scale; wrong shapes: .*--new-head 1 keeps the initial"
    ):
        load_weights_(network(), tensors)
    load_weights_(network(), tensors, new_head=("1",))


def test_of_another_architecture_only_some_names_are_listed():
    with pytest.raises(
        ValueError, match=r"missing: .* and \d+ more; unexpected: 0.weight"
    ) as caught:
        load_weights_(ResNet20(), network().state_dict())
    assert "--new-head" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(
        ValueError, match=r"no tensor of the model matches new_head 'fc'; its layers are 0, 1"
    ):
        load_weights_(network(), {}, new_head=("fc",))


def test_counters_of_batches_may_be_missing():
    source, target = ResNet20(), ResNet20()
    state = {name: each for name, each in source.state_dict().items() if "num_batches" not in name}
    load_weights_(target, state)
    assert torch.equal(source.head.weight, target.head.weight)
