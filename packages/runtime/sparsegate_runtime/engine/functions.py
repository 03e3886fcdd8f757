"""The functions of elements that the engine computes."""

from enum import IntEnum


class Function(IntEnum):
    """Functions of elements, by the numbers of engine.h."""

    COPY = 0
    RELU = 1
    RELU6 = 2
    LEAKY_RELU = 3
    ELU = 4
    SIGMOID = 5
    TANH = 6
    SILU = 7
    GELU = 8
    GELU_TANH = 9
    HARD_SIGMOID = 10
    HARD_SWISH = 11
    SOFTPLUS = 12
    MISH = 13
    EXP = 14
    LOG = 15
    ERF = 16
    SQRT = 17
    RSQRT = 18
    RECIPROCAL = 19
    ABS = 20
    NEG = 21
    SQUARE = 22
    SIN = 23
    COS = 24
    FLOOR = 25
    CEIL = 26
    ROUND = 27
    SIGN = 28
    CLAMP = 29
    AFFINE = 30
    POW = 31
    ADD = 32
    SUB = 33
    MUL = 34
    DIV = 35
    MAX = 36
    MIN = 37
    PRELU = 38
    KEEP = 39
