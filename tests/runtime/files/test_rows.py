"""The format rows, number by number as docs/formats/rows.md says."""

import numpy as np
import pytest

from sparsegate_runtime.files import FORMATS, Cost
from sparsegate_runtime.files.format import Description, Elements

ROWS = FORMATS["rows"]
BITS = np.array([0, 5, 0, 7, 0, 9], np.int16)
PARTS = {
    "values": np.array([5, 7, 9], np.int16),
    "counts": np.array([1, 2], np.uint8),
    "columns": np.array([1, 0, 2], np.uint8),
}


def decoded(shape=(2, 3), **changes):
    plan = Description(shape, 3)
    out = np.zeros(plan.total, np.int16)
    ROWS.decode(plan, PARTS | changes, out)
    return out


def test_every_row_has_a_count_and_every_kept_element_a_column():
    parts = ROWS.encode(Elements(BITS, (2, 3))).parts
    assert {name: part.tolist() for name, part in parts.items()} == {
        "values": [5, 7, 9],
        "counts": [1, 2],
        "columns": [1, 0, 2],
    }
    assert ROWS.cost(Elements(BITS, (2, 3))) == Cost(values=3 * 16, indices=5 * 8)


def test_values_go_to_their_rows_and_columns():
    assert decoded().tolist() == BITS.tolist()


def test_all_but_the_first_dimension_are_columns():
    parts = ROWS.encode(Elements(BITS, (1, 2, 3, 1))).parts
    assert parts["counts"].tolist() == [3]
    assert parts["columns"].tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("columns", "count_type", "column_type"),
    [
        (255, "u1", "u1"),
        (256, "u2", "u1"),
        (257, "u2", "u2"),
        (65535, "u2", "u2"),
        (65536, "u4", "u2"),
    ],
)
def test_types_are_the_smallest_that_hold_the_largest_entry(columns, count_type, column_type):
    bits = np.ones(columns, np.int8)
    encoded = ROWS.encode(Elements(bits, (1, columns)))
    assert encoded.parts["counts"].dtype == count_type
    assert encoded.parts["columns"].dtype == column_type
    assert encoded.parts["counts"].tolist() == [columns]
    assert encoded.parts["columns"][-1] == columns - 1


def test_a_column_beyond_four_bytes_is_not_cut_off():
    elements = Elements(
        np.zeros(2**33, np.int8), (1, 2**33)
    )  # the kernel gives zeros that take no memory
    elements.__dict__["positions"] = np.array([2**32 + 5])
    elements.bits[2**32 + 5] = 1
    encoded = ROWS.encode(elements)
    assert encoded.parts["columns"].tolist() == [2**32 + 5]
    assert (
        8 * encoded.parts["columns"].nbytes + 8 * encoded.parts["counts"].nbytes
        == ROWS.cost(elements).indices
    )


@pytest.mark.parametrize("counts", [[1, 1], [2, 2], [255, 255], [3], [1, 2, 0]])
def test_counts_with_another_sum_or_for_other_rows_are_refused(counts):
    with pytest.raises(ValueError, match="counts"):
        decoded(counts=np.array(counts, np.uint8))


@pytest.mark.parametrize("columns", [[1, 2, 0], [1, 0, 0], [1, 0, 3], [3, 0, 2], [1, 2, 255]])
def test_columns_that_do_not_rise_or_lie_outside_are_refused(columns):
    with pytest.raises(ValueError, match="rise"):
        decoded(columns=np.array(columns, np.uint8))


@pytest.mark.parametrize("part", ["counts", "columns"])
def test_a_wider_type_than_needed_is_refused(part):
    with pytest.raises(ValueError, match="one-dimensional array of uint8"):
        decoded(**{part: PARTS[part].astype(np.uint16)})
