"""The fast transform is Sylvester's matrix, orthonormal and its own inverse."""

import pytest
import torch

from sparsegate_lab.layers import Hadamard


def sylvester(size):
    """Entry (i, j) is minus one to the number of ones that i and j share in binary."""
    signs = [[(-1.0) ** (i & j).bit_count() for j in range(size)] for i in range(size)]
    return torch.tensor(signs) / size**0.5


@pytest.mark.parametrize("size", [1, 2, 4, 8, 32, 64, 128, 512, 1024, 2048])
def test_it_is_sylvesters_matrix_for_every_size(size):
    torch.testing.assert_close(
        Hadamard(size)(torch.eye(size)), sylvester(size), atol=1e-6, rtol=1e-5
    )


def test_it_transforms_the_last_dimension_of_any_batch():
    x = torch.randn(3, 2, 64)
    torch.testing.assert_close(Hadamard(64)(x), x @ sylvester(64))


def test_twice_is_nothing_and_lengths_stay():
    x, transform = torch.randn(5, 256), Hadamard(256)
    torch.testing.assert_close(transform(transform(x)), x)
    torch.testing.assert_close(transform(x).norm(dim=1), x.norm(dim=1))


def test_the_gradient_is_the_transform_of_the_gradient():
    x = torch.randn(2, 64, requires_grad=True)
    above = torch.randn(2, 64)
    Hadamard(64)(x).backward(above)
    torch.testing.assert_close(x.grad, Hadamard(64)(above))


def test_it_stores_nothing():
    assert Hadamard(64).state_dict() == {}


@pytest.mark.parametrize("size", [0, 3, 100])
def test_other_sizes_are_refused(size):
    with pytest.raises(ValueError, match=f"is a power of two, got {size}"):
        Hadamard(size)
