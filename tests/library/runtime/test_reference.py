"""The references that mirror the kernels give what torch gives on dense weights."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from tests.library.runtime import reference

from sparsegate.runtime import ChainLayer


def close(got: torch.Tensor, want: torch.Tensor) -> bool:
    return torch.allclose(got, want, rtol=1e-12, atol=1e-10)


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_convolutions_by_packed_rows_are_those_by_dense_weights(drawn, images, data):
    layer = data.draw(drawn["convolution"]())
    x = images(layer, 2)
    want = reference.chain([layer], x)
    assert close(reference.panel_conv(layer, x), want)
    assert close(reference.single_conv(layer, x), want)


@settings(max_examples=examples(20), deadline=None)
@given(data=st.data(), vectors=st.sampled_from((1, 2, 4)))
def test_linear_layers_by_packed_rows_and_slices_are_those_by_dense_weights(
    drawn, images, data, vectors
):
    layer = data.draw(drawn["linear"]())
    x = images(layer, 2)
    want = reference.chain([layer], x)
    assert close(reference.panel_linear(layer, x, vectors), want)
    assert close(reference.single_linear(layer, x), want)


def test_a_convolution_by_hand():
    weight = torch.tensor([[[[2.0, 0.0, -1.0]]]])
    layer = ChainLayer(
        weight, torch.tensor([0.5]), (1, 1, 5), stride=(1, 2), padding=(0, 1), relu=True
    )
    image = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]])  # padded: 0 1 2 3 4 5 0
    want = [[0.0, 0.5, 8.5]]  # 2 * 0 - 2 + 0.5 < 0; 2 * 2 - 4 + 0.5; 2 * 4 - 0 + 0.5
    for way in (lambda x: reference.chain([layer], x), lambda x: reference.panel_conv(layer, x)):
        assert way(image.reshape(1, 1, 1, 5)).tolist() == want


def test_pooling_takes_the_largest_of_a_window():
    layer = ChainLayer(torch.ones(1, 1, 1, 1), None, (1, 3, 4), pool=2, pool_stride=1)
    image = torch.arange(12.0).reshape(1, 1, 3, 4)  # 0 1 2 3, 4 5 6 7, 8 9 10 11
    assert reference.single_conv(layer, image).tolist() == [[5, 6, 7, 9, 10, 11]]


def test_the_padded_input_is_split_into_the_phases_of_the_stride():
    layer = ChainLayer(torch.ones(1, 1, 1, 1), None, (1, 1, 3), stride=(1, 2), padding=(0, 1))
    image = torch.tensor([1.0, 2.0, 3.0]).reshape(1, 1, 1, 3)  # padded: 0 1 2 3 0
    one = reference.place(layer, image, single=True)[
        :, 0
    ]  # narrow: every phase has a cache line to itself
    assert one.tolist() == [0, 2, 0] + [0] * 13 + [1, 3, 0] + [0] * 13
    assert reference.place(layer, image, single=False)[:, 0].tolist() == [0, 2, 0, 1, 3, 0]
