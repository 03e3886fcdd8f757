"""The fast cosine transform is the textbook's matrix, for even and odd sizes."""

import math

import pytest
import torch

from sparsegate_lab.layers import Cosine
from sparsegate_lab.layers.cosine import matrix as whole
from sparsegate_lab.layers.cosine import product


def matrix(size):
    """sqrt(2/n) cos(pi k (2 i + 1) / 2 n), the first row by sqrt(1/n)."""
    k, i = (
        torch.arange(size, dtype=torch.float64)[:, None],
        torch.arange(size, dtype=torch.float64)[None],
    )
    rows = math.sqrt(2 / size) * torch.cos(math.pi * k * (2 * i + 1) / (2 * size))
    rows[0] /= math.sqrt(2)
    return rows.float()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 100, 101])
def test_it_is_the_textbooks_matrix(size):
    x = torch.randn(3, 2, size)
    torch.testing.assert_close(Cosine(size)(x), x @ matrix(size).T, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 100, 101])
def test_the_inverse_undoes_it(size):
    x = torch.randn(3, size)
    torch.testing.assert_close(Cosine(size).inverse(Cosine(size)(x)), x, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(Cosine(size).inverse(x), x @ matrix(size), atol=1e-5, rtol=1e-4)


def test_the_gradient_of_the_transform_is_the_inverse():
    x = torch.randn(2, 10, requires_grad=True)
    above = torch.randn(2, 10)
    Cosine(10)(x).backward(above)
    torch.testing.assert_close(x.grad, Cosine(10).inverse(above), atol=1e-5, rtol=1e-4)


def test_half_precision_comes_out_in_full():
    assert Cosine(8)(torch.randn(2, 8).bfloat16()).dtype == torch.float32
    assert Cosine(8).inverse(torch.randn(2, 8).bfloat16()).dtype == torch.float32


def test_it_stores_nothing():
    assert Cosine(8).state_dict() == {}


@pytest.mark.parametrize("size", [1, 2, 7, 12])
def test_the_matrix_that_a_gpu_multiplies_with_is_the_same(size):
    torch.testing.assert_close(whole(size, torch.device("cpu")), matrix(size))


def test_a_product_has_full_precision_under_autocast_too():
    x, by = torch.randn(3, 8), whole(8, torch.device("cpu"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = product(x.bfloat16(), by)
    torch.testing.assert_close(y, x.bfloat16().float() @ by)
