"""Images that are turned, stretched, slanted, moved and bent."""

import math

import pytest
import torch

from sparsegate_lab.data import Elastic, mnist
from sparsegate_lab.data.elastic import KNOTS, PLAIN, TURN

NOTHING = torch.zeros(1, PLAIN + 2 * KNOTS**2)


def changed(strength=1.0, **numbers):
    """An image with one dot at row 8 and column 20 of 28, changed by these of the drawn numbers."""
    image = torch.zeros(1, 1, 28, 28)
    image[0, 0, 8, 20] = 255
    drawn = NOTHING.clone()
    for place, name in enumerate(("angle", "tall", "wide", "slant", "down", "right")):
        drawn[0, place] = numbers.get(name, 0.0)
    drawn[0, PLAIN:] = numbers.get("bent", 0.0)
    return Elastic(strength).apply(image, drawn)[0, 0]


def centre(image):
    """Row and column of the middle of what is bright."""
    rows, columns = torch.arange(28.0), torch.arange(28.0)
    return float(image.sum(1) @ rows / image.sum()), float(image.sum(0) @ columns / image.sum())


def test_zeros_change_nothing():
    images = mnist().train.images[:5]
    torch.testing.assert_close(
        Elastic().apply(images, NOTHING.expand(5, -1)), images.float(), rtol=0.0, atol=0.05
    )  # sampled between pixels, whose places are rounded


@pytest.mark.parametrize(
    ("numbers", "down", "right"),
    [
        # The dot is 5.5 above and 6.5 to the right of the middle.
        ({"down": 1.0}, -0.5, 0.0),
        ({"right": 1.0}, 0.0, -0.5),
        ({"tall": 1.0}, 5.5 * (1 - math.exp(-0.05)), 0.0),
        ({"wide": 1.0}, 0.0, -6.5 * (1 - math.exp(-0.05))),
        ({"slant": 1.0}, 0.0, 5.5 * 0.06),
        ({"angle": 1.0}, -6.5 * math.sin(TURN), -5.5 * math.sin(TURN)),
        ({"bent": 1.0}, -0.4, -0.4),
    ],
)
def test_a_dot_goes_where_it_should(numbers, down, right):
    row, column = centre(changed(**numbers))
    assert (row - 8, column - 20) == pytest.approx((down, right), abs=0.06)


def test_twice_the_strength_goes_twice_as_far():
    assert centre(changed(2.0, right=1.0))[1] - 20 == pytest.approx(-1.0, abs=0.01)


def test_the_same_generator_draws_the_same_and_levels_stay_levels():
    images = mnist().train.images[:50]
    drawn = [Elastic(2.0).draw(50, torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*drawn)
    made = Elastic(2.0).apply(images, drawn[0])
    assert made.shape == images.shape
    assert made.min() >= 0
    assert made.max() <= 255.01


def test_images_need_not_be_square_or_grey():
    images = torch.full((2, 3, 10, 16), 100.0)
    made = Elastic().apply(images, Elastic().draw(2, torch.Generator().manual_seed(0)))
    torch.testing.assert_close(made[:, :, 3:-3, 3:-3], images[:, :, 3:-3, 3:-3])
