"""The format bitmap, byte by byte as docs/formats/bitmap.md says."""

import numpy as np
import pytest

from sparsegate_runtime.files import FORMATS, Cost
from sparsegate_runtime.files.format import Description, Elements

BITMAP = FORMATS["bitmap"]
BITS = np.array([5, 0, 0, -7, 0, 0, 0, 0, 0, 9], np.int32)
VALUES = np.array([5, -7, 9], np.int32)
MASK = np.array([0b00001001, 0b10], np.uint8)  # elements 0, 3 and 9


def decoded(values, mask):
    out = np.zeros(10, np.int32)
    BITMAP.decode(Description((10,), 3), {"values": values, "mask": mask}, out)
    return out


def test_the_first_element_is_the_lowest_bit_of_the_first_byte():
    parts = BITMAP.encode(Elements(BITS, (10,))).parts
    assert parts["values"].tolist() == [5, -7, 9]
    assert parts["mask"].tolist() == MASK.tolist()


def test_ten_elements_need_two_bytes_of_mask():
    assert BITMAP.cost(Elements(BITS, (10,))) == Cost(values=3 * 32, indices=2 * 8)


def test_values_go_where_the_mask_is_one():
    assert decoded(VALUES, MASK).tolist() == BITS.tolist()


def test_a_mask_with_another_number_of_ones_is_refused():
    with pytest.raises(ValueError, match="must have 3 ones, got 4"):
        decoded(VALUES, MASK | np.array([2, 0], np.uint8))


def test_ones_after_the_end_are_refused():
    with pytest.raises(ValueError, match="zeros after"):
        decoded(VALUES, MASK | np.array([0, 128], np.uint8))


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_mask_of_another_length_is_refused(length):
    with pytest.raises(ValueError, match="mask must have"):
        decoded(VALUES, np.resize(MASK, length))


def test_a_kept_value_is_never_zero():
    with pytest.raises(ValueError, match="zero"):
        decoded(np.array([5, 0, 9], np.int32), MASK)
