"""A run is checked when it is made, and its name stands for all its settings."""

import dataclasses
import json
import math

import pytest
import torch
from safetensors.torch import save_file

from sparsegate.price import Penalty
from sparsegate.target import Target
from sparsegate_lab.methods import Dense, LearnedGates, Magnitude
from sparsegate_lab.models import LeNet300
from sparsegate_lab.train import Run, Stop, Teacher

NAN = float("nan")

OTHER = {
    "model": "lenet300",
    "data": "some/folder",
    "method": Dense(),
    "epochs": 21,
    "batch_size": 64,
    "lr": 0.05,
    "momentum": 0.8,
    "weight_decay": 0.0,
    "warmup": 0.1,
    "stop": Stop(rate=10.0, baseline=90.0),
    "flip": True,
    "crop": 0.5,
    "jitter": 0.2,
    "erase": 8,
    "label_smoothing": 0.1,
    "clip": 5.0,
    "normalise": "imagenet",
    "stored_size": 160,
    "bad_images": "skip",
    "shift": 0,
    "seed": 1,
    "precision": "bf16",
    "compile": True,
    "distil": Teacher("some/folder"),
    "average": 0.999,
}

OTHER_METHOD = {
    "penalty": Penalty(count=3.0),
    "draw": "sample",
    "start": 0.7,
    "keep": 0.1,
    "keeps": (("fc1.*", 0.2),),
    "only": ("fc*",),
    "gate_lr": 1.0,
    "gate_momentum": 0.5,
    "ramp": 0.4,
    "freeze": 0.8,
    "fade": True,
    "update": "together",
    "target": Target(keep=0.1),
    "graded": True,
}

BAD = [
    ({"epochs": 0}, "epochs is at least 1, got 0"),
    ({"batch_size": 0}, "batch_size is at least 1, got 0"),
    ({"warmup": 1.0}, r"warmup is a fraction of training in \[0, 1\)"),
    ({"crop": 1.5}, r"crop is in \[0, 1\]"),
    ({"jitter": 1.0}, r"jitter in \[0, 1\)"),
    ({"clip": -1.0}, "the length of a gradient, or 0 for none, got -1.0"),
    ({"label_smoothing": 1.0}, r"a share in \[0, 1\), got 1.0"),
    (
        {"label_smoothing": 0.1, "distil": Teacher("some/folder")},
        "leave label_smoothing or distil out",
    ),
    ({"erase": -1}, "side of a square in pixels, or 0 for none, got -1"),
    ({"normalise": "none"}, "normalise is one of data, imagenet, got 'none'"),
    ({"stored_size": 0}, "at least 1 pixel, got 0"),
    ({"new_head": ("fc3",)}, "there are no weights"),
    ({"shift": -1}, "shift is in pixels, from 0"),
    ({"shift": 15}, "shift is in pixels, from 0"),
    ({"lr": 0.0}, "lr is finite and above zero"),
    ({"lr": -1.0}, "lr is finite and above zero"),
    ({"lr": NAN}, "lr is finite and above zero"),
    ({"lr": math.inf}, "lr is finite and above zero"),
    ({"weight_decay": math.inf}, "weight_decay finite"),
    ({"momentum": 1.0}, r"momentum in \[0, 1\)"),
    ({"momentum": -0.1}, r"momentum in \[0, 1\)"),
    ({"weight_decay": -1e-4}, "weight_decay finite and zero or more"),
    ({"precision": "fp8"}, "precision is fp32, bf16 or fp16, got 'fp8'"),
]

BAD_METHOD = [
    ({"keep": 0.0}, r"keep is a fraction in \(0, 1\], got 0.0; for 95 % sparsity write keep=0.05"),
    ({"keep": 1.5}, r"keep is a fraction in \(0, 1\]"),
    ({"keep": NAN}, r"keep is a fraction in \(0, 1\]"),
    ({"keeps": (("fc1.*", 1.5),)}, r"keep is a fraction in \(0, 1\], got 1.5"),
    ({"start": 1.1}, r"a number in \[0, 1\], got 1.1"),
    ({"start": NAN}, r"a number in \[0, 1\]"),
    ({"ramp": -0.1}, r"ramp is in \[0, 1\]"),
    ({"ramp": 1.1}, r"ramp is in \[0, 1\]"),
    ({"freeze": 0.0}, r"freeze in \(0, 1\]"),
    ({"freeze": 1.1}, r"freeze in \(0, 1\]"),
    ({"draw": "dice"}, "draw is one of threshold, sample, got 'dice'"),
    ({"gate_lr": -1.0}, "gate_lr is finite and zero or more"),
    ({"gate_lr": NAN}, "gate_lr is finite and zero or more"),
    ({"gate_lr": math.inf}, "gate_lr is finite and zero or more"),
    (
        {"graded": True, "keep": 0.1},
        "graded opens all gates, and keep closes some; leave one out, or use keeps",
    ),
    ({"gate_momentum": 1.0}, r"gate_momentum in \[0, 1\)"),
    (
        {"target": Target(keep=0.1, listen=True), "graded": True},
        "the loss chooses which gates open; leave keep, keeps and graded",
    ),
]


def unchecked(settings, **change):
    """Settings with values that beartype, which only tests use, would refuse first."""
    for name, value in change.items():
        object.__setattr__(settings, name, value)
    return settings


@pytest.mark.parametrize(("change", "wanted"), BAD)
def test_a_run_that_cannot_be_is_refused_with_what_is_wanted(change, wanted):
    with pytest.raises(ValueError, match=wanted):
        unchecked(Run(), **change).__post_init__()


@pytest.mark.parametrize(("change", "wanted"), BAD_METHOD)
def test_a_method_that_cannot_be_is_refused_with_what_is_wanted(change, wanted):
    with pytest.raises(ValueError, match=wanted):
        unchecked(LearnedGates(), **change).__post_init__()


def test_settings_are_checked_when_they_are_made():
    with pytest.raises(ValueError, match="epochs"):
        Run(epochs=0)
    with pytest.raises(ValueError, match="keep"):
        LearnedGates(keep=1.5)


def test_weights_and_gates_move_together_under_threshold_only():
    with pytest.raises(
        ValueError, match="update small needs draw threshold, got sample; use update apart"
    ):
        LearnedGates(draw="sample", update="small")


def test_every_field_has_another_value_in_this_test():
    assert set(OTHER) | {"weights", "new_head", "front"} == {
        field.name for field in dataclasses.fields(Run)
    }
    assert set(OTHER_METHOD) == {field.name for field in dataclasses.fields(LearnedGates)}


@pytest.mark.parametrize("field", OTHER)
def test_another_value_of_any_field_is_another_name(field):
    assert dataclasses.replace(Run(), **{field: OTHER[field]}).name != Run().name


@pytest.mark.parametrize("field", OTHER_METHOD)
def test_another_value_of_any_field_of_the_method_is_another_name(field):
    assert Run(method=LearnedGates(**{field: OTHER_METHOD[field]})).name != Run().name


@pytest.mark.parametrize("change", [{"count": 9.0}, {"bimodal": 1.0}, {"per": "layer"}])
def test_another_price_is_another_name(change):
    assert Run(method=LearnedGates(penalty=Penalty(**change))).name != Run().name


def test_equal_runs_have_one_name_which_tells_model_and_method():
    first, second = (Run(epochs=5, method=LearnedGates(only=("fc1.*", "fc2.*"))) for _ in range(2))
    assert first.name == second.name
    assert first.name.startswith("lenet5-learned_gates-")
    assert Run(model="lenet300", method=Dense()).name.startswith("lenet300-dense-")


def test_whole_numbers_name_the_run_that_the_same_decimals_name():
    whole = unchecked(Run(), lr=1)
    assert whole == Run(lr=1.0)
    assert whole.name == Run(lr=1.0).name


APART = {
    **OTHER_METHOD,
    "update": "apart",
    "target": Target(),
    "graded": False,
}  # as the other draw wants it


@pytest.mark.parametrize(
    "run",
    [
        Run(),
        Run(method=Dense()),
        Run(method=LearnedGates(**APART), seed=3),
        Run(
            **{**OTHER, "average": None, "label_smoothing": 0.0}
        ),  # a dense network has no mask; a teacher smooths
        Run(
            method=LearnedGates(target=Target(max_drop=0.3)),
            distil=Teacher("some/folder", share=0.1),
            average=1.0,
        ),
    ],
)
def test_a_run_comes_back_from_json(run):
    settings = json.loads(json.dumps(run.to_json()))
    assert Run.from_json(settings) == run


def test_records_of_earlier_versions_lack_settings_and_get_their_defaults():
    settings = Run(epochs=3).to_json()
    del settings["stop"], settings["crop"], settings["method"]["freeze"]
    assert Run.from_json(settings) == Run(epochs=3)


@pytest.fixture
def weights(tmp_path):
    """The same weights at two places, and others."""
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.manual_seed(seed)
        save_file(LeNet300().state_dict(), tmp_path / f"{name}.safetensors")
    return lambda name: str(tmp_path / f"{name}.safetensors")


def test_the_content_of_weights_names_a_run_and_not_their_place(weights):
    names = [Run(weights=weights(name)).name for name in "abc"]
    assert names[0] == names[1] != names[2] != Run().name
    assert Run(weights=weights("a"), new_head=("fc3",)).name != names[0]


def test_weights_that_change_in_place_are_another_run(weights):
    before = Run(weights=weights("a")).name
    save_file({"x": torch.zeros(1)}, weights("a"))
    assert Run(weights=weights("a")).name != before


def test_a_run_with_weights_comes_back_from_json_and_tells_their_content(weights):
    run = Run(weights=weights("a"), new_head=("fc3",), stop=Stop(rate=3.0, drop=0.5))
    settings = json.loads(json.dumps(run.to_json()))
    assert Run.from_json(settings) == run
    assert len(settings["weights_content"]) == 32


@pytest.mark.parametrize(
    "change", [{"gate_lr": 1.0}, {"penalty": Penalty(count=3.0)}, {"ramp": 0.1}, {"freeze": 0.5}]
)
def test_what_a_target_makes_idle_is_refused(change):
    (name,) = change
    with pytest.raises(ValueError, match=f"with a target, {name} would have no effect"):
        LearnedGates(target=Target(keep=0.1), **change)


def test_an_average_needs_a_mask_that_stands_still():
    with pytest.raises(ValueError, match="mask that is frozen before the end; dense has none"):
        Run(method=Dense(), average=0.9)


def test_a_target_moves_the_gates_by_themselves():
    with pytest.raises(ValueError, match="got update small; use update apart"):
        LearnedGates(target=Target(keep=0.1), update="small")


def test_a_run_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Run().epochs = 3


def test_settings_within_settings_come_back_as_they_were():
    run = Run(method=Magnitude(factors=(("conv*", 0.5), ("fc2.*", 1.0))))
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize("update", ["together", "small"])
def test_clipping_one_gradient_for_weights_and_gates_is_refused(update):
    with pytest.raises(ValueError, match="clip would affect both"):
        Run(clip=1.0, method=LearnedGates(update=update))


@pytest.mark.parametrize(
    ("part", "value"), [("begin", 0.3), ("freeze", 0.9), ("travel", 2.0), ("evenly", 0.5)]
)
def test_a_part_of_a_target_without_a_wish_would_have_no_effect(part, value):
    with pytest.raises(
        ValueError,
        match=f"{part} of a target would have no effect; ask for keep, weights or another",
    ):
        LearnedGates(target=Target(**{part: value}))


def test_a_target_by_pattern_is_stored_in_its_order_and_makes_flags():
    first, other = (
        Run(method=LearnedGates(target=Target(keep=dict(pairs))))
        for pairs in ([("fc1*", 0.02), ("*", 0.1)], [("*", 0.1), ("fc1*", 0.02)])
    )
    read = Run.from_json(json.loads(json.dumps(first.to_json())))
    assert read == first
    assert list(read.method.target.keep) == ["fc1*", "*"]
    assert first.name != other.name
    assert first.to_flags()[-5:] == ["--target.keep", "fc1*", "0.02", "*", "0.1"]
