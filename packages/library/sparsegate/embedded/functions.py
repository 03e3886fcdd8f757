"""Writes functions of elements as expressions of C."""

from __future__ import annotations

import math

from sparsegate.export import c_float
from sparsegate_runtime.engine import Function

PLAIN: dict[Function, str] = {
    Function.COPY: "a",
    Function.RELU: "(a < 0.0f ? 0.0f : a)",
    Function.RELU6: "bounded(a, 0.0f, 6.0f)",
    Function.SIGMOID: "sigmoid(a)",
    Function.TANH: "tanhf(a)",
    Function.SILU: "(a * sigmoid(a))",
    Function.GELU: "(0.5f * a * (1.0f + erff(a * 0.70710678f)))",
    Function.GELU_TANH: ("(0.5f * a * (1.0f + tanhf(0.79788456f * (a + 0.044715f * a * a * a))))"),
    Function.HARD_SIGMOID: "(bounded(a + 3.0f, 0.0f, 6.0f) / 6.0f)",
    Function.HARD_SWISH: "(a * bounded(a + 3.0f, 0.0f, 6.0f) / 6.0f)",
    Function.SOFTPLUS: "(a > 20.0f ? a : log1pf(expf(a)))",
    Function.MISH: "(a * tanhf(a > 20.0f ? a : log1pf(expf(a))))",
    Function.EXP: "expf(a)",
    Function.LOG: "logf(a)",
    Function.ERF: "erff(a)",
    Function.SQRT: "sqrtf(a)",
    Function.RSQRT: "(1.0f / sqrtf(a))",
    Function.RECIPROCAL: "(1.0f / a)",
    Function.ABS: "fabsf(a)",
    Function.NEG: "(-a)",
    Function.SQUARE: "(a * a)",
    Function.SIN: "sinf(a)",
    Function.COS: "cosf(a)",
    Function.FLOOR: "floorf(a)",
    Function.CEIL: "ceilf(a)",
    Function.ROUND: "rintf(a)",
    Function.SIGN: "(float)((a > 0.0f) - (a < 0.0f))",
    Function.LEAKY_RELU: "(a < 0.0f ? a * X : a)",
    Function.ELU: "(a < 0.0f ? X * expm1f(a) : a)",
    Function.CLAMP: "bounded(a, X, Y)",
    Function.AFFINE: "(a * X + Y)",
    Function.POW: "powf(a, X)",
    Function.ADD: "(a + b)",
    Function.SUB: "(a - b)",
    Function.MUL: "(a * b)",
    Function.DIV: "(a / b)",
    Function.MAX: "(a < b ? b : a)",
    Function.MIN: "(a > b ? b : a)",
    Function.PRELU: "(a > 0.0f ? a : a * b)",
    Function.KEEP: "(b > 0.0f ? a : 0.0f)",
}
"""Expressions of `a` and `b`, with the constants X and Y."""


def expression(function: Function, x: float, y: float) -> str:
    """The function of `a` and `b` in C."""
    return PLAIN[function].replace("X", number(x)).replace("Y", number(y))


def number(value: float) -> str:
    """A literal of single precision; infinities have names.

    >>> number(0.5), number(-math.inf)
    ('0.5f', '-HUGE_VALF')
    """
    if math.isinf(value):
        return "HUGE_VALF" if value > 0 else "-HUGE_VALF"
    return c_float(value)
