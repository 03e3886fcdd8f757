"""Masks become bits, or shades where there are too many."""

import numpy as np
import torch

from sparsegate.files import pack_tensor
from sparsegate_lab.report.run_folder.network import filters_of, mask_of


def test_the_bits_are_the_mask_row_by_row():
    tensor = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    mask = mask_of("w", pack_tensor(tensor))
    assert (mask.rows, mask.columns, mask.kept, mask.total, mask.block) == (2, 3, 3, 6, 1)
    bits = np.unpackbits(np.frombuffer(mask.shade, np.uint8), bitorder="little")[:6]
    assert bits.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_large_mask_is_shaded_by_what_its_blocks_keep():
    tensor = torch.zeros(1000, 1001)
    tensor[:8, :8] = 1.0  # block is 8: 1,001,000 / 2^14 is 61.1, of which 7.8 is the root
    tensor[8:16, 8:10] = 1.0
    mask = mask_of("w", pack_tensor(tensor))
    shade = np.frombuffer(mask.shade, np.uint8).reshape(125, 126)
    assert mask.block == 8
    assert (shade[0, 0], shade[1, 1], np.count_nonzero(shade)) == (
        255,
        127,
        2,
    )  # a quarter's root is a half


def test_the_filters_are_those_of_the_first_convolution():
    weights = {"fc.weight": torch.ones(2, 3), "conv.weight": torch.arange(18.0).reshape(2, 1, 3, 3)}
    entries = {name: pack_tensor(tensor) for name, tensor in weights.items()}
    found = filters_of(entries)
    assert (found.name, found.height, found.width) == ("conv", 3, 3)
    assert found.values[1] == tuple(float(each) for each in range(9, 18))
    assert filters_of({"fc.weight": entries["fc.weight"]}) is None
