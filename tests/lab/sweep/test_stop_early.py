"""A trial is compared with those that are no larger, at the same moment."""

from sparsegate_lab.sweep.stop_early import PEERS, is_behind


def ended(*accuracies, kept=100):
    return [[[0.25, 50.0, 1000], [0.5, accuracy, kept]] for accuracy in accuracies]


def test_a_trial_below_the_median_is_behind():
    others = ended(90.0, 91.0, 92.0, 93.0)
    assert is_behind([[0.5, 91.4, 100]], others, by_size=False)
    assert not is_behind([[0.5, 91.6, 100]], others, by_size=False)


def test_a_small_network_is_not_compared_with_large_ones():
    others = ended(90.0, 91.0, 92.0, 93.0)
    assert not is_behind([[0.5, 10.0, 50]], others, by_size=True)
    assert is_behind([[0.5, 10.0, 50]], others, by_size=False)
    assert is_behind([[0.5, 10.0, 96]], others, by_size=True)  # 100 is no more than 5 % larger


def test_no_trial_ends_in_the_first_half_or_without_enough_others():
    others = ended(90.0, 91.0, 92.0, 93.0)
    assert not is_behind([[0.4, 10.0, 100]], others, by_size=False)
    assert not is_behind([[0.5, 10.0, 100]], others[: PEERS - 1], by_size=False)


def test_trials_with_another_number_of_epochs_are_compared_at_the_same_fraction():
    others = [[[0.3, 10.0, 100], [0.6, 99.0, 100]] for _ in range(PEERS)]
    assert not is_behind([[0.5, 20.0, 100]], others, by_size=False)  # at 0.5 the others had 10 %
    assert is_behind([[0.6, 20.0, 100]], others, by_size=False)
