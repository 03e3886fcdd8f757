"""Methods against learned gates of the same size, by hand."""

from sparsegate_lab.paper.contest import Contestant, best_gates, standing
from sparsegate_lab.record import Layer, Record
from sparsegate_lab.study import Study


def entry(recipe, kept, tests, validation=99.0, method="magnitude"):
    records = [
        Record(
            "name",
            {"method": {"name": method}, "seed": seed},
            "",
            {},
            {},
            layers=(Layer("fc.weight", (100, 10), 1000, kept),),
            num_biases=0,
            biases_kept=0,
            validation=validation,
            test=test,
            epochs=(),
            seconds=1.0,
        )
        for seed, test in enumerate(tests)
    ]
    return Contestant(recipe, Study(recipe, "", tuple(records)))


SMALL = entry("gates-small", 50, [99.2, 99.3], validation=99.1, method="learned_gates")
LARGE = entry("gates-large", 200, [99.5, 99.6], validation=99.6, method="learned_gates")
FITTED = entry("gates-fitted", 190, [99.9, 99.9], validation=99.5, method="learned_gates")
ALL = [SMALL, LARGE, FITTED]


def test_gates_compete_only_with_at_most_as_many_weights():
    assert best_gates(ALL, at_most=100.0) == SMALL
    assert best_gates(ALL, at_most=10.0) is None


def test_the_best_gates_are_chosen_by_validation_not_by_test():
    assert best_gates(ALL, at_most=250.0) == LARGE


def test_gates_are_ahead_level_or_behind():
    # Standard errors: 0.05 for both, so that two of their combination are 0.14.
    assert standing(LARGE, entry("other", 300, [99.0, 99.1])).startswith("ahead (+0.50, with 200")
    assert standing(LARGE, entry("other", 300, [99.4, 99.5])).startswith("level (+0.10")
    assert standing(LARGE, entry("other", 300, [99.8, 99.9])).startswith("behind (-0.30")
    assert standing(None, SMALL) == "no gates so small"


def test_a_single_seed_is_taken_to_vary_as_the_other_method_does():
    # 0.0707 between the seeds of LARGE: 2 * hypot(0.05, 0.0707) = 0.17.
    assert standing(LARGE, entry("other", 300, [99.4])).startswith("level (+0.15")
    assert standing(LARGE, entry("other", 300, [99.3])).startswith("ahead (+0.25")
