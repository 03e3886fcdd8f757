"""Dense parts give what their layers give, by every kernel, for any number of images."""

import copy

import pytest
import torch
from torch import nn

from sparsegate.runtime import dense_part as module
from sparsegate.runtime.dense_part import DensePart, dense_kernels_for, dense_part, has_packing
from sparsegate.runtime.sparsable import captured, pieces
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(
    KERNELS is None or not has_packing(), reason="kernels not built, or another torch"
)


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 16, 3, padding=1, bias=False),
        nn.MaxPool2d(3, 2),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.Flatten(),
    ).eval()


@pytest.fixture
def found(model) -> list:
    return pieces(captured(model, torch.zeros(1, 3, 25, 26)))


def test_convolutions_run_packed_and_by_winograds_method_where_it_fits(found):
    assert [dense_kernels_for(piece) for piece in found] == [
        ["packed"],
        *[["packed", "winograd", "winograd8"]] * 3,
    ]


@torch.no_grad()
@pytest.mark.parametrize("kernel", ["packed", "winograd", "winograd8"])
@pytest.mark.parametrize("batch", [0, 1, 5])
def test_consecutive_convolutions_give_what_they_gave(model, found, kernel, batch):
    x = torch.randn(batch, 3, 25, 26)
    part = dense_part(found, ["packed", *[kernel] * 3])
    torch.testing.assert_close(part(x), model(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("last", [2, 4])
@pytest.mark.parametrize("batch", [0, 2, 7])
def test_few_images_at_a_time_give_the_same(monkeypatch, found, last, batch):
    x = torch.randn(batch, 3, 25, 26)
    kernels = ["packed", "winograd", "winograd8", "packed"][:last]
    want = dense_part(found[:last], kernels)(x)
    monkeypatch.setattr(
        module, "NEAR", 4 * 2 * 32 * 13 * 13
    )  # two images of the second layer's output
    part = dense_part(found[:last], kernels)
    assert [few for few, _ in part.levels] == [2, 16, 160][
        : last - 1
    ]  # the first layer gives less, but to the second
    torch.testing.assert_close(part(x), want)


def test_another_shape_is_refused(found):
    with pytest.raises(
        ValueError,
        match=r"made for float32 inputs of shape \(3, 25, 26\) on the CPU, got .*sg.sparse",
    ):
        dense_part(found[:1], ["packed"])(torch.zeros(1, 3, 25, 25))


def test_a_kernel_that_cannot_run_a_layer_is_refused(found):
    with pytest.raises(
        ValueError, match=r"0 can run here by dense or packed, got 'winograd'; measure again"
    ):
        dense_part(found[:1], ["winograd"])


def test_a_torch_that_cannot_pack_is_left_alone(monkeypatch, found):
    def missing(*_args, **_settings):
        raise AttributeError(
            "'_OpNamespace' 'mkldnn' object has no attribute '_reorder_convolution_weight'"
        )

    monkeypatch.setattr(module, "_onednn", missing)
    has_packing.cache_clear()
    try:
        assert [dense_kernels_for(piece) for piece in found] == [
            [],
            *[["winograd", "winograd8"]] * 3,
        ]
    finally:
        has_packing.cache_clear()


def test_parts_are_shared_by_copies_and_named(found):
    part = dense_part(found[:2], ["packed", "winograd"])
    assert isinstance(part, DensePart)
    assert copy.deepcopy(part) is part
    assert "0 -> 2" in repr(part)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_no_kernel_runs_other_than_float32(found, model, dtype):
    model.to(dtype)
    assert not any(dense_kernels_for(piece) for piece in found)
