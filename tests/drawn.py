"""How many cases hypothesis draws: all of them on fresh seeds, a quarter where every run draws the same."""

import os

from hypothesis import settings

SEED = os.environ.get("SPARSEGATE_SEED")
"""Unset, every run of the tests draws the same cases; `make test-random` sets it and prints it."""
USUAL = 100


def examples(count: int, few: int = 0) -> int:
    """The number of cases for `max_examples`: `count` are all; `few` is less than a quarter."""
    return count if SEED else few or max(count // 4, 1)


def load_profile() -> None:
    """Sets the usual number of cases, and whether they are the same in every run."""
    if SEED:
        settings.register_profile("tests", max_examples=USUAL, deadline=None, print_blob=True)
    else:
        kept = {"derandomize": True, "database": None}
        settings.register_profile("tests", max_examples=examples(USUAL), deadline=None, **kept)
    settings.load_profile("tests")
