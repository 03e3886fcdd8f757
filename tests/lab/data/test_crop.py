"""Parts of images at another size are what Pillow makes of them."""

import numpy as np
import pytest
import torch
from PIL import Image

from sparsegate.export import Normalise
from sparsegate_lab.data import IMAGENET, Fit
from sparsegate_lab.data.crop import centred, resized


def picture(height, width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (1, 1, height, width), generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("size", [(5, 7), (12, 10), (24, 40), (1, 1)])
@pytest.mark.parametrize("box", [(0, 0, 12, 10), (2, 3, 6, 5), (0.5, 1.25, 9.5, 7.5)])
def test_a_part_at_another_size_is_pillows(size, box):
    image = picture(12, 10)
    top, left, height, width = box
    pillow = Image.fromarray(image[0, 0].numpy().astype(np.float32)).resize(
        size[::-1], Image.Resampling.BILINEAR, box=(left, top, left + width, top + height)
    )
    ours = resized(image, torch.tensor([box], dtype=torch.float32), size)[0, 0]
    torch.testing.assert_close(ours, torch.from_numpy(np.array(pillow)), atol=1e-3, rtol=0)


def test_every_image_has_its_own_box():
    images = torch.cat([picture(8, 8, seed) for seed in (1, 2)])
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [3.0, 2.0, 4.0, 4.0]])
    first, second = resized(images, boxes, (4, 4))
    assert torch.equal(first[0], images[0, 0, :4, :4].float())
    assert torch.equal(second[0], images[1, 0, 3:7, 2:6].float())


def test_the_middle_of_a_larger_image_is_cut_out_unchanged():
    image = picture(10, 9)
    assert torch.equal(centred(image, (4, 5)), image[:, :, 3:7, 2:7])
    assert torch.equal(centred(image, (10, 9)), image)


def test_a_smaller_image_is_enlarged_and_keeps_its_shape():
    image = picture(4, 8)
    assert centred(image, (8, 8)).shape == (1, 1, 8, 8)
    middle = resized(image, torch.tensor([[0.0, 2.0, 4.0, 4.0]]), (8, 8))
    torch.testing.assert_close(centred(image, (8, 8)), middle)


def test_fitting_an_image_that_fits_only_normalises_it():
    image = picture(6, 6)
    fit = Fit((6, 6), Normalise(10.0, 2.0))
    assert torch.equal(fit(image), (image.float() - 10) / 2)
    assert torch.equal(fit(image.float()), fit(image))


def test_imagenets_colours_have_their_own_mean_and_spread():
    grey = IMAGENET(torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)).flatten()
    wanted = [
        (1 - mean) / spread for mean, spread in ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))
    ]
    torch.testing.assert_close(grey, torch.tensor(wanted))
