"""How work is cut into programs."""

import pytest

from sparsegate.runtime.triton_tile import choose, power_of_two


@pytest.mark.parametrize("num_images", [1, 2, 3, 8, 16, 17, 1000])
@pytest.mark.parametrize("num_rows", [1, 10, 4096])
@pytest.mark.parametrize("mean", [0.0, 1.0, 25.1, 322.0, 25088.0])
def test_a_chosen_tile_is_one_that_the_kernels_take(mean, num_rows, num_images):
    tile = choose(mean, num_rows, num_images)
    for number in (tile.rows, tile.width, tile.warps, tile.images):
        assert number == power_of_two(number)
    assert tile.rows * tile.width * tile.images <= 1 << 14
    assert tile.warps <= 16
    assert (tile.images == 1) == (num_images == 1)
