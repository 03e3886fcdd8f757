"""How work is cut into programs."""

import pytest

from sparsegate.runtime.cuda.tile import MAX_SHARED, choose, power_of_two


@pytest.mark.parametrize("image_bytes", [2, MAX_SHARED, 2 * MAX_SHARED])
@pytest.mark.parametrize("num_images", [1, 2, 3, 8, 16, 17, 1000])
@pytest.mark.parametrize("num_rows", [1, 10, 4096])
@pytest.mark.parametrize("longest", [0, 4, 48, 388, 500, 25088])
def test_a_chosen_tile_is_one_that_the_kernels_take(longest, num_rows, num_images, image_bytes):
    tile = choose(longest, num_rows, num_images, image_bytes)
    for number in (tile.rows, tile.width, tile.warps, tile.images):
        assert number == power_of_two(number)
    assert tile.rows * tile.width * tile.images <= 1 << 14
    assert tile.warps <= 16
    assert (tile.images == 1) == (num_images == 1)
    assert not tile.shared or (num_images == 1 and image_bytes <= MAX_SHARED)


def test_layers_with_few_rows_are_cut_into_programs_of_fewer_rows():
    assert choose(500, 1000, 1, 8192).rows < choose(500, 4096, 1, 8192).rows
