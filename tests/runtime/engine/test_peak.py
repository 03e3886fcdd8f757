"""The rate that layers are compared with."""

import pytest

from sparsegate_runtime.engine import peak
from sparsegate_runtime.kernels import KERNELS


@pytest.mark.skipif(KERNELS is None, reason="kernels not built")
def test_the_peak_is_measured_once_and_is_what_a_core_can_do():
    fastest = KERNELS.sg_variant()
    assert 1e8 < peak(fastest) < 1e12
    assert peak(fastest) == peak(fastest)
