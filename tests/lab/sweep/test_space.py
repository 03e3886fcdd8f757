"""Settings are varied by the names of their flags, within their types."""

import pytest

from sparsegate_lab.methods import Magnitude
from sparsegate_lab.sweep import Choose, Vary, with_settings
from sparsegate_lab.sweep.space import fitted_space
from sparsegate_lab.train import Run


def test_words_become_a_range():
    assert Vary.from_words(["lr", "0.01", "0.1", "log"]) == Vary("lr", 0.01, 0.1, log=True)
    assert Vary.from_words(["epochs", "2", "5"]) == Vary("epochs", 2, 5)
    assert Choose.from_words(["draw", "threshold", "sample"]).values == ("threshold", "sample")


def test_a_range_takes_the_type_of_its_setting():
    lr, epochs = fitted_space(Run(), [Vary("lr", 1, 2), Vary("epochs", 2, 5)])
    assert type(lr.low) is float
    assert type(epochs.low) is int


def test_a_choice_takes_the_type_of_its_setting():
    words = [["flip", "true", "false"], ["batch-size", "32", "64"], ["average", "none", "0.9"]]
    fitted = fitted_space(Run(), [Choose.from_words(each) for each in words])
    assert [each.values for each in fitted] == [(True, False), (32, 64), (None, 0.9)]


def test_settings_of_the_method_and_of_its_parts_are_found_without_a_prefix():
    values = {"gate-lr": 5.0, "target.keep": 0.01, "target.reach": 0.5, "lr": 0.2}
    with pytest.raises(ValueError, match="gate_lr would have no effect"):
        with_settings(Run(), values)
    values.pop("gate-lr")
    run = with_settings(Run(), values)
    assert (run.lr, run.method.target.keep, run.method.target.reach) == (0.2, 0.01, 0.5)


def test_settings_change_together_so_that_no_state_between_is_refused():
    run = with_settings(Run(), {"target.keep": 0.1, "target.reach": 0.9, "target.freeze": 0.95})
    assert run.method.target.reach == 0.9


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ([], "a sweep varies at least one setting"),
        ([Vary("lrr", 0.1, 1)], "lenet5 by learned_gates has no setting 'lrr'"),
        ([Vary("target", 0.1, 1)], "has no setting 'target'"),
        ([Vary("lr.x", 0.1, 1)], "has no setting 'lr.x'"),
        ([Vary("epochs", 1.5, 3)], "epochs takes whole numbers"),
        ([Vary("draw", 1, 3)], "draw takes no number: use --choose"),
        ([Choose("draw", ("threshold", "often"))], "draw takes threshold or sample, got 'often'"),
        ([Choose("batch-size", ("8", "many"))], "batch-size takes a whole number, got 'many'"),
        ([Vary("target.keep", 0.1, 1.5)], "keep is a fraction in"),
        ([Vary("lr", 0.1, 1), Vary("lr", 0.2, 1)], "lr is varied twice"),
        ([Vary("gate-lr", 1, 2), Vary("gate_lr", 3, 4)], "varied twice"),
    ],
)
def test_what_cannot_be_varied_is_refused_before_anything_is_trained(space, message):
    with pytest.raises(ValueError, match=message):
        fitted_space(Run(), space)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lr", "0.1"], "--vary takes NAME LOW HIGH"),
        (["lr", "0.1", "1", "linear"], "--vary takes NAME LOW HIGH"),
        (["draw", "threshold", "sample"], "for other values use --choose draw"),
        (["lr", "1", "0.1"], "lr is varied from low to high, got 1, 0.1"),
        (["lr", "0", "1", "log"], "a logarithmic range begins above zero"),
        ([], "--vary takes NAME LOW HIGH"),
    ],
)
def test_words_that_are_no_range_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        Vary.from_words(words)


def test_a_choice_has_two_different_values():
    with pytest.raises(ValueError, match="two or more different values"):
        Choose.from_words(["draw", "sample", "sample"])


def test_every_method_s_settings_can_be_varied():
    run = Run(method=Magnitude())
    assert with_settings(run, {"keep": 0.2}).method.keep == 0.2
