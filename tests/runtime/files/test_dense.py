"""The format dense: the elements as they are."""

import numpy as np
import pytest

from sparsegate_runtime.files import FORMATS, Cost
from sparsegate_runtime.files.format import Description, Elements

DENSE = FORMATS["dense"]


def test_its_only_part_is_every_element():
    bits = np.array([3, 0, -1, 0], np.int16)
    encoded = DENSE.encode(Elements(bits, (2, 2)))
    assert list(encoded.parts) == ["values"]
    assert encoded.parts["values"].tolist() == [3, 0, -1, 0]
    assert encoded.settings == {}


def test_zeros_cost_as_much_as_anything_else():
    assert DENSE.cost(Elements(np.zeros(5, np.int64), (5,))) == Cost(values=5 * 64)


@pytest.mark.parametrize(
    "values", [np.zeros(3, np.int32), np.zeros(5, np.int32), np.zeros(4, np.int64)]
)
def test_too_few_too_many_or_wider_elements_are_refused(values):
    with pytest.raises(ValueError, match="values must"):
        DENSE.decode(Description((4,), 0), {"values": values}, np.zeros(4, np.int32))
