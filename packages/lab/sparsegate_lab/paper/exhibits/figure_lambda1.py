"""Figure 3b of the paper: sparsity over lambda1, the price of undecided gates."""

from __future__ import annotations

from ..fc1_runs import fc1_gated
from ..sweep import Curves, Sweep
from ..verdict import Claim


def claims(curves: Curves) -> tuple[Claim, ...]:
    """Checks that lambda1 lowers sparsity and variance, from its least to its largest value."""
    threshold, variance = (
        [each[0].mean, each[-1].mean] for each in (curves.threshold, curves.variance)
    )
    less = f"{threshold[0]:.1f} to {threshold[1]:.1f} % [T]"
    steadier = f"{variance[0]:.1f} to {variance[1]:.1f} % [S]"
    return (
        Claim("lambda1 stabilises by reducing the sparsity", threshold[1] < threshold[0], less),
        Claim("lambda1 lowers the variance", variance[1] < variance[0], steadier),
    )


FIGURE_LAMBDA1 = Sweep(
    "Figure 3b: sparsity of fc1 over lambda1",
    "lambda1, with lambda2 = 1",
    "$\\lambda_1$, with $\\lambda_2 = 1$",
    (0.0, 1.0, 2.0, 4.0),
    lambda value, draw: fc1_gated(bimodal=value, count=1.0, draw=draw),
    claims,
)
