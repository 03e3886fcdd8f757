"""Parts give what their layers give, for inputs of the kind that they were made for."""

import copy

import pytest
import torch
from torch import nn

from sparsegate.runtime.part import ChainPart, CsrPart, kernels_for, sparse_part
from sparsegate.runtime.sparsable import Piece, captured, pieces
from sparsegate_runtime.kernels import KERNELS

needs_kernels = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


@pytest.fixture
def model(sparsified) -> nn.Module:
    layers = (
        nn.Conv2d(2, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 5),
        nn.ReLU(),
    )
    return sparsified(nn.Sequential(*layers))


@pytest.fixture
def found(model) -> list[Piece]:
    return pieces(captured(model, torch.zeros(1, 2, 8, 8)))


@needs_kernels
@pytest.mark.parametrize("batch", [0, 1, 5, 16])
def test_a_chain_of_all_layers_is_the_model(model, found, batch):
    x = torch.randn(batch, 2, 8, 8)
    torch.testing.assert_close(ChainPart(found)(x), model(x).detach())


@needs_kernels
def test_what_is_not_flattened_keeps_its_shape(sparsified):
    conv = sparsified(nn.Conv2d(2, 4, 3))
    x = torch.randn(3, 2, 8, 9)
    part = ChainPart(pieces(captured(nn.Sequential(conv), x)))
    torch.testing.assert_close(part(x), conv(x).detach())


@needs_kernels
@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(1, 2, 8, 7),
        torch.zeros(2, 8, 8),
        torch.zeros(1, 2, 8, 8, dtype=torch.float64),
        torch.zeros(1, 2, 8, 8, dtype=torch.float16),
        torch.zeros(1, 2, 8, 8, dtype=torch.int64),
        torch.zeros(1, 2, 8, 8, device="meta"),
    ],
    ids=["size", "one image", "double", "half", "integer", "device"],
)
def test_another_shape_type_or_device_is_refused(found, x):
    with pytest.raises(
        ValueError,
        match=r"made for float32 inputs of shape \(2, 8, 8\) on the CPU, got .* call sg.sparse",
    ):
        ChainPart(found)(x)


@needs_kernels
def test_a_chain_part_names_its_layers(found):
    assert "0 -> 4" in repr(ChainPart(found))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_csr_part_is_its_linear_layer(sparsified, relu, bias):
    linear = nn.Linear(36, 5, bias=bias)
    layers = sparsified(nn.Sequential(linear, nn.ReLU()) if relu else nn.Sequential(linear))
    x = torch.randn(7, 36)
    (piece,) = pieces(captured(layers, x))
    part = CsrPart(piece)
    assert part.matrix.layout is torch.sparse_csr
    torch.testing.assert_close(part(x), layers(x).detach())


def test_parts_are_shared_by_copies(found):
    part = sparse_part(found[1:], "csr")
    assert copy.deepcopy(part) is part


@needs_kernels
def test_on_a_processor_all_layers_run_by_chains_and_linear_ones_by_csr(found):
    assert [kernels_for(piece) for piece in found] == [["chain"], ["chain", "csr"]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_no_kernel_runs_other_than_float32(found, model, dtype):
    model.to(dtype)
    assert [kernels_for(piece) for piece in found] == [[], []]


def test_panels_beyond_the_reach_of_32_bit_offsets_run_by_no_chain():
    conv = nn.Sequential(nn.Conv2d(1, 1, 1, stride=1000))
    (piece,) = pieces(
        captured(conv, torch.zeros(1, 1, 1, 1).expand(1, 1, 5800, 5800))
    )  # 33 640 000 * 64 > 2**31
    assert kernels_for(piece) == []


@pytest.mark.parametrize(("number", "kernel"), [(0, "csr"), (0, "sideways"), (1, "sideways")])
def test_a_kernel_that_cannot_run_a_layer_is_refused(found, number, kernel):
    with pytest.raises(
        ValueError, match=rf"{found[number].name} can run here by dense .*got '{kernel}'"
    ):
        sparse_part([found[number]], kernel)
