"""The step in one pass is the step."""

from importlib.util import find_spec

import pytest
import torch

from sparsegate_lab.batched.update import ManyRates, Stacked, move_, move_fused_

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
SHAPE = (3, 7, 200)


def stacked(gated, sampled, tilted, averaged, adapted):
    torch.manual_seed(1)
    some = lambda wanted, *shape: torch.rand(*shape) if wanted else None
    return Stacked(
        torch.rand(*SHAPE) - 0.5,
        torch.rand(*SHAPE) - 0.5,
        some(gated, *SHAPE),
        some(gated, *SHAPE),
        some(sampled, *SHAPE),
        some(averaged, *SHAPE),
        some(gated, 3),
        some(tilted, 3),
        some(adapted, *SHAPE),
    )


@pytest.mark.parametrize(
    "kinds",
    [
        (False,) * 5,
        (True, False, False, False, False),
        (True, False, False, False, True),
        (True,) * 5,
    ],
    ids=str,
)
def test_everything_moves_alike(kinds):
    one, other = stacked(*kinds), stacked(*kinds)
    grad, rates = torch.randn(*SHAPE), ManyRates(*(torch.rand(3) for _ in range(8)))
    rates.adapt[1] = 0.0  # one member among others whose steps do not adapt
    move_(one, grad, rates)
    move_fused_(other, grad, rates)
    for name in ("weight", "speed", "gate", "gate_speed", "average", "square"):
        torch.testing.assert_close(getattr(other, name), getattr(one, name))
