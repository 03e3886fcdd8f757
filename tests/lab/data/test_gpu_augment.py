"""What the kernels make of photographs is what the augments make of them, one after the other."""

from importlib.util import find_spec

import pytest
import torch

from sparsegate.export import Normalise
from sparsegate_lab.data import IMAGENET, Erase, Fit, Flip, Jitter, RandomCrop, Shift
from sparsegate_lab.data.gpu_augment import can_change_fast, changed_in_one_pass, changes_of

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def photographs(count, height, width):
    draw = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, height, width), dtype=torch.uint8, generator=draw).to(
        DEVICE
    )


def plain(images, drawn, augments, view):
    for augment, numbers in zip(augments, drawn, strict=True):
        images = augment.apply(images, numbers)
    return view(images)


@needs_triton
@pytest.mark.parametrize(
    ("shape", "size", "augments"),
    [
        ((20, 20), (28, 28), (Shift(0), Flip(), RandomCrop((28, 28), 0.35), Jitter(0.4))),
        ((20, 24), (40, 35), (RandomCrop((40, 35), 0.08), Jitter(0.2))),
        ((50, 41), (16, 12), (Flip(), RandomCrop((16, 12), 0.9))),  # smaller: more pixels make one
    ],
)
def test_the_kernels_do_what_the_augments_do(shape, size, augments):
    images, view = photographs(5, *shape), Fit(size, IMAGENET)
    draw = torch.Generator().manual_seed(1)
    drawn = tuple(
        augment.draw(9, draw)[3:8].to(DEVICE) for augment in augments
    )  # of an epoch, so not aligned
    ours = changed_in_one_pass(images, drawn, changes_of(augments, view))
    torch.testing.assert_close(
        ours, plain(images, drawn, augments, view), rtol=0, atol=5e-4
    )  # of 1/58 levels; a GPU's exp and sqrt are not exact


@needs_triton
def test_whole_images_that_are_not_resized_stay_as_they_are():
    images, augments = photographs(2, 9, 9), (RandomCrop((9, 9), 1.0),)
    drawn = (torch.full((2, 4), 0.5, device=DEVICE),)
    ours = changed_in_one_pass(
        images, drawn, changes_of(augments, Fit((9, 9), Normalise(1.0, 2.0)))
    )
    torch.testing.assert_close(ours, (images.float() - 1) / 2)


CROP, FIT = RandomCrop((8, 8)), Fit((8, 8), IMAGENET)


@pytest.mark.parametrize(
    ("augments", "view"),
    [
        ((Shift(2), CROP), FIT),
        ((Flip(),), FIT),
        ((CROP, Flip()), FIT),
        ((CROP, Jitter(0.1), Erase(2)), FIT),
        ((CROP, CROP), FIT),
        ((CROP,), Fit((9, 9), IMAGENET)),
        ((CROP,), IMAGENET),
    ],
)
def test_other_changes_are_left_to_the_augments(augments, view):
    assert changes_of(augments, view) is None


def test_only_photographs_on_a_gpu_go_the_fast_way():
    assert can_change_fast(photographs(1, 8, 8)) == (DEVICE == "cuda")
    assert not can_change_fast(photographs(1, 8, 8).float())
    assert not can_change_fast(photographs(1, 8, 8)[:, :1])
