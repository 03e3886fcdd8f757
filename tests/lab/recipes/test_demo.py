"""What the README's first command promises; takes minutes."""

import pytest

from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.train import train


@pytest.mark.slow
def test_the_demo_beats_the_papers_method_1(tmp_path):
    record = train(RECIPES["lenet5-demo"](), folder=tmp_path)
    assert record.rate >= 99.9
    assert record.test >= 99.19
