"""A target is one wish, and says what is wrong with a bad one."""

import pytest

from sparsegate.target import Target


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"keep": 0.1, "weights": 5},
            "one of keep, weights, max_drop, bytes, price, path, got keep and weights",
        ),
        ({"keep": 0.0}, "keep is a fraction"),
        ({"keep": 1.5}, "keep is a fraction"),
        ({"keep": {"*": 0.0}}, "keep is a fraction"),
        ({"keep": {}}, r'at least one pattern, got none; write keep=\{"\*": 0.01\}'),
        ({"weights": 0}, "at least 1"),
        ({"max_drop": -0.1}, "points of accuracy"),
        ({"bytes": 0}, "size of a file"),
        ({"price": -1.0}, "zero or more"),
        ({"price": float("nan")}, "zero or more"),
        ({"path": ()}, "one or more prices"),
        ({"path": (1.0, -1.0)}, "each finite and zero or more"),
        ({"keep": 0.1, "baseline": 99.0}, "accuracy in percent for max_drop"),
        ({"max_drop": 0.1, "baseline": 0.0}, "accuracy in percent for max_drop"),
        ({"keep": 0.1, "begin": 0.0}, "0 < begin < reach"),
        ({"keep": 0.1, "reach": 0.9}, "0 < begin < reach"),
        ({"keep": 0.1, "freeze": 1.0}, "0 < begin < reach"),
        ({"keep": 0.1, "travel": 0.0}, "distance above zero"),
        (
            {"max_drop": 0.3, "fall": "factor"},
            "other than a cube for keep, weights, bytes, got 'factor' with",
        ),
        ({"listen": True}, "listen is a part of a target; ask for one of keep"),
    ],
)
def test_a_wish_out_of_range_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        Target(**options)


def test_a_fall_that_nobody_knows_is_an_error():
    target = Target(keep=0.1)
    object.__setattr__(target, "fall", "line")  # the tests check types when an object is made
    with pytest.raises(
        ValueError, match=r"fall is one of cube, factor, .*got 'line' with keep=0.1"
    ):
        target.__post_init__()


def test_a_target_by_pattern_is_a_target_for_each_and_can_be_a_key():
    target = Target(keep={"conv*": 0.2, "*": 0.01}, reach=0.5)
    assert str(target) == "keep=conv* 0.2, * 0.01"
    assert target.groups == {
        "conv*": Target(keep=0.2, reach=0.5),
        "*": Target(keep=0.01, reach=0.5),
    }
    assert {target: 1}[Target(keep={"conv*": 0.2, "*": 0.01}, reach=0.5)] == 1
    assert Target(keep=0.1).groups == {"*": Target(keep=0.1)}


def test_a_target_without_a_wish_is_false():
    assert not Target()
    assert Target().wish == ""
    assert Target(price=0.0)
    assert Target(price=0.0).wish == "price"


@pytest.mark.parametrize(("sparsity", "keep"), [(0.9, "0.1"), (0.995, "0.005")])
def test_who_asks_for_a_sparsity_is_told_what_to_keep(sparsity, keep):
    with pytest.raises(TypeError, match=f"Target takes the fraction to keep.* write keep={keep}$"):
        Target(sparsity=sparsity)


def test_a_target_prints_as_what_it_asks_for():
    assert [str(Target(keep=0.1)), str(Target())] == ["keep=0.1", "no target"]


@pytest.mark.parametrize("options", [{"price": float("inf")}, {"path": (1.0, float("inf"))}])
def test_a_price_without_end_is_an_error(options):
    with pytest.raises(ValueError, match="finite"):
        Target(**options)
