"""Figure 3c of the paper: sparsity over lambda2, the price of weights."""

from __future__ import annotations

from itertools import pairwise

from ..fc1_runs import fc1_gated
from ..sweep import Curves, Sweep
from ..verdict import Claim


def claims(curves: Curves) -> tuple[Claim, ...]:
    """Checks that sparsity rises with the price, at every step of both curves."""
    threshold, sample = curves.sparsities()
    rising = all(
        before < after for curve in (threshold, sample) for before, after in pairwise(curve)
    )
    evidence = (
        f"{threshold[0]:.1f} to {threshold[-1]:.1f} % [T], "
        f"{sample[0]:.1f} to {sample[-1]:.1f} % [S]"
    )
    return (Claim("increasing lambda2 increases the sparsity", rising, evidence),)


FIGURE_LAMBDA2 = Sweep(
    "Figure 3c: sparsity of fc1 over lambda2",
    "lambda2, with lambda1 = 0",
    "$\\lambda_2$, with $\\lambda_1 = 0$",
    (0.0, 0.1, 0.25, 0.5, 1.0, 2.0),
    lambda value, draw: fc1_gated(count=value, draw=draw),
    claims,
)
