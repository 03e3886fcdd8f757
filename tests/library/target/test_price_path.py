"""The way of a price is remembered part by part, and read again."""

import pytest
import torch

from sparsegate.target.price_path import PARTS, PricePath, price_at
from sparsegate.target.target import Target

TARGET = Target(keep=0.1, begin=0.2, reach=0.5, freeze=0.7)  # every part is a fiftieth of training
CPU = torch.device("cpu")


def test_a_part_has_the_mean_price_of_its_steps_counted_by_how_far_gates_moved():
    path = PricePath(TARGET, CPU)
    for price, distance in ((1.0, 3.0), (5.0, 1.0)):
        path.add(torch.tensor(price), distance, 0.205)
    path.add(torch.tensor(7.0), 0.5, 0.695)
    assert path.prices() == (2.0,) * (PARTS - 1) + (7.0,)


def test_a_path_goes_on_from_its_state():
    one, other = PricePath(TARGET, CPU), PricePath(TARGET, CPU)
    one.add(torch.tensor(2.0), 1.0, 0.3)
    other.load(one.state())
    for each in (one, other):
        each.add(torch.tensor(4.0), 1.0, 0.3)
    assert one.prices() == other.prices()
    assert 3.0 in one.prices()


@pytest.mark.parametrize(
    ("progress", "price"), [(0.1, 1.0), (0.2, 1.0), (0.44, 1.0), (0.46, 2.0), (0.9, 2.0)]
)
def test_the_price_of_a_moment_is_that_of_its_part(progress, price):
    assert price_at((1.0, 2.0), TARGET, progress) == price
