"""Kept weights and their columns as words."""

import pytest
import torch

from sparsegate.runtime.cuda.bands import make_bands
from sparsegate.runtime.cuda.words import NARROW, WIDE, decode, encode, kind_of


def words_of(weight):
    counts = (weight != 0).sum(1)
    assert (counts.diff() <= 0).all()
    return encode(weight, make_bands(counts.numpy()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_words_hold_every_kept_weight_and_padding_adds_zero_at_the_last_column(dtype):
    weight = torch.tensor([[0, -1.5, 0, 2, 3, 4, 5], [0, 0, 7, 0, 0, 0, 0]], dtype=dtype)
    columns, values = decode(*words_of(weight), kind_of(dtype, 7))
    assert columns.tolist() == [1, 3, 4, 5, 6, 6, 6, 6, 2, 2, 2, 2]
    assert values.tolist() == [-1.5, 2, 3, 4, 5, 0, 0, 0, 7, 0, 0, 0]


@pytest.mark.parametrize(
    ("dtype", "num_bytes"), [(torch.bfloat16, 4), (torch.float16, 4), (torch.float32, 6)]
)
def test_a_kept_weight_takes_four_bytes_or_six(dtype, num_bytes):
    columns, values = words_of(torch.ones(3, 8, dtype=dtype))
    assert columns.nbytes + values.nbytes == 3 * 8 * num_bytes


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_last_of_65536_columns_is_told_from_the_first(dtype):
    weight = torch.zeros(1, 65536, dtype=dtype)
    weight[0, 0], weight[0, -1] = 1, -2
    columns, values = decode(*words_of(weight), kind_of(dtype, 65536))
    assert columns.tolist() == [0, 65535, 65535, 65535]
    assert values.tolist() == [1, -2, 0, 0]


def test_more_columns_take_32_bits():
    assert kind_of(torch.float32, 65536) == NARROW
    assert kind_of(torch.bfloat16, 65537) == WIDE
    weight = torch.zeros(1, 70000, dtype=torch.bfloat16)
    weight[0, 69999] = 3
    columns, values = decode(*words_of(weight), WIDE)
    assert columns.tolist() == [69999] * 4
    assert values.tolist() == [3, 0, 0, 0]


def test_other_dtypes_are_refused():
    with pytest.raises(ValueError, match=r"bf16, fp16 or fp32, got torch.float64; convert"):
        kind_of(torch.float64, 8)
