"""A codebook builds rows from few vectors, and counts vectors and the bits of codes."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import Codebook


def test_a_weight_of_few_vectors_comes_back_whole():
    torch.manual_seed(0)
    dense = nn.Linear(6, 8)
    with torch.no_grad():  # two kinds of rows
        dense.weight.copy_(torch.randn(2, 6)[torch.tensor([0, 1, 0, 0, 1, 1, 0, 1])])
    layer = Codebook(dense, length=3, num_codes=4)
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(layer(x), dense(x))


def test_every_stretch_is_a_vector_of_its_own_book():
    torch.manual_seed(0)
    layer = Codebook(nn.Linear(6, 8, bias=False), length=2, num_codes=3)
    weight = layer(torch.eye(6)).T
    for row in range(8):
        for place in range(3):
            wanted = layer.books[3 * place + int(layer.codes[row, place])]
            assert torch.equal(weight[row, 2 * place : 2 * place + 2], wanted)


@pytest.mark.parametrize(("num_codes", "bits"), [(2, 1), (3, 2), (16, 4), (17, 5), (256, 8)])
def test_the_numbers_of_lenet_5_by_hand(num_codes, bits):
    layer = Codebook(nn.Linear(800, 500), length=100, num_codes=num_codes)
    assert layer.num_values == 8 * num_codes * 100
    assert layer.num_indices == -(-500 * 8 * bits // 32)
    assert layer.codes.shape == (500, 8)
    assert layer.codes.dtype == torch.uint8
    assert layer.stands_for == (500, 800)


def test_the_vectors_learn_and_the_codes_stay():
    torch.manual_seed(0)
    layer = Codebook(nn.Linear(4, 6), length=2, num_codes=2)
    layer(torch.ones(1, 4)).sum().backward()
    # The gradient of a vector is the number of rows that use it.
    uses = torch.stack(
        [layer.codes[:, place].bincount(minlength=2) for place in range(2)]
    ).flatten()
    assert torch.equal(layer.books.grad, uses[:, None].float().expand(4, 2))
    assert "codes" in layer.state_dict()


@pytest.mark.parametrize(
    ("length", "num_codes", "said"),
    [
        (3, 4, "must divide the 8 inputs of the layer, got 3"),
        (0, 4, "got 0"),
        (2, 1, "from 2 to 6"),
        (2, 7, "from 2 to 6"),
    ],
)
def test_stretches_and_codes_that_do_not_fit_are_refused(length, num_codes, said):
    with pytest.raises(ValueError, match=said):
        Codebook(nn.Linear(8, 6), length=length, num_codes=num_codes)
