"""Triton kernels for convolution with pooling and ReLU, for many members."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

# Images are [member * batch, height, width, channel], weights [member, tap * channel, unit] with
# taps by rows, outputs [member * batch, tall, broad, unit]. Every pooled position p of a member
# covers four positions, s = 0..3.


@triton.jit
@no_type_check
def corner(
    p,
    member,
    BATCH: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    TALL: tl.constexpr,
    BROAD: tl.constexpr,
):
    """The offset of the first input of a pooled position."""
    image = member * BATCH + p // (TALL * BROAD)
    row = (p // BROAD) % TALL
    column = p % BROAD
    return ((image * H + 2 * row) * W + 2 * column) * C


@triton.jit
@no_type_check
def pooled_forward(
    images, weight, bias, out, code,
    BATCH: tl.constexpr, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, N: tl.constexpr,
    WIDE: tl.constexpr, K: tl.constexpr, TALL: tl.constexpr, BROAD: tl.constexpr,
    PRECISION: tl.constexpr, ROWS: tl.constexpr, BK: tl.constexpr, NP: tl.constexpr,
):  # fmt: skip
    """Output and code: which of four positions was the largest; 4 if ReLU gives zero."""
    member = tl.program_id(1)
    p = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = p < BATCH * TALL * BROAD
    base = corner(p, member, BATCH, H, W, C, TALL, BROAD)
    n = tl.arange(0, NP)
    acc0 = tl.zeros((ROWS, NP), tl.float32)
    acc1 = tl.zeros((ROWS, NP), tl.float32)
    acc2 = tl.zeros((ROWS, NP), tl.float32)
    acc3 = tl.zeros((ROWS, NP), tl.float32)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        offset = (k // (WIDE * C)) * (W * C) + k % (WIDE * C)
        wt = tl.load(
            weight + (member * K + k)[:, None] * N + n[None, :],
            mask=(k < K)[:, None] & (n < N)[None, :],
            other=0.0,
        )
        at = images + base[:, None] + offset[None, :]
        mask = inside[:, None] & (k < K)[None, :]
        acc0 = tl.dot(tl.load(at, mask=mask, other=0.0), wt, acc0, input_precision=PRECISION)
        acc1 = tl.dot(tl.load(at + C, mask=mask, other=0.0), wt, acc1, input_precision=PRECISION)
        acc2 = tl.dot(
            tl.load(at + W * C, mask=mask, other=0.0), wt, acc2, input_precision=PRECISION
        )
        acc3 = tl.dot(
            tl.load(at + W * C + C, mask=mask, other=0.0), wt, acc3, input_precision=PRECISION
        )
    best = acc0
    which = tl.zeros((ROWS, NP), tl.int32)
    which = tl.where(acc1 > best, 1, which)
    best = tl.maximum(best, acc1)
    which = tl.where(acc2 > best, 2, which)
    best = tl.maximum(best, acc2)
    which = tl.where(acc3 > best, 3, which)
    best = tl.maximum(best, acc3)
    best += tl.load(bias + member * N + n, mask=n < N, other=0.0)[None, :]
    which = tl.where(best > 0, which, 4)
    position = (member * (BATCH * TALL * BROAD) + p)[:, None] * N + n[None, :]
    known = inside[:, None] & (n < N)[None, :]
    tl.store(out + position, tl.maximum(best, 0.0), mask=known)
    tl.store(code + position, which.to(tl.uint8), mask=known)


@triton.jit
@no_type_check
def pooled_weights(
    images, grad, code, to_weight, to_bias, MEMBERS: tl.constexpr, SHARE: tl.constexpr,
    BATCH: tl.constexpr, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, N: tl.constexpr,
    WIDE: tl.constexpr, K: tl.constexpr, TALL: tl.constexpr, BROAD: tl.constexpr,
    PRECISION: tl.constexpr, ROWS: tl.constexpr, BK: tl.constexpr, NP: tl.constexpr,
):  # fmt: skip
    """Gradients of weights [part, member, K, N] and biases [part, member, N], summed over parts."""
    part = tl.program_id(1)
    member = tl.program_id(2)
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    offset = (k // (WIDE * C)) * (W * C) + k % (WIDE * C)
    n = tl.arange(0, NP)
    acc = tl.zeros((BK, NP), tl.float32)
    total = tl.zeros((NP,), tl.float32)
    for first in range(0, SHARE, ROWS):
        p = part * SHARE + first + tl.arange(0, ROWS)
        inside = p < BATCH * TALL * BROAD
        at = images + corner(p, member, BATCH, H, W, C, TALL, BROAD)[:, None] + offset[None, :]
        seen = inside[:, None] & (k < K)[None, :]
        position = (member * (BATCH * TALL * BROAD) + p)[:, None] * N + n[None, :]
        known = inside[:, None] & (n < N)[None, :]
        g = tl.load(grad + position, mask=known, other=0.0)
        which = tl.load(code + position, mask=known, other=4).to(tl.int32)
        for s in tl.static_range(4):
            x = tl.load(at + ((s // 2) * W * C + (s % 2) * C), mask=seen, other=0.0)
            acc = tl.dot(tl.trans(x), tl.where(which == s, g, 0.0), acc, input_precision=PRECISION)
        total += tl.sum(tl.where(which < 4, g, 0.0), 0)
    row = ((part * MEMBERS + member) * K + k)[:, None] * N + n[None, :]
    tl.store(to_weight + row, acc, mask=(k < K)[:, None] & (n < N)[None, :])
    if tl.program_id(0) == 0:
        tl.store(to_bias + (part * MEMBERS + member) * N + n, total, mask=n < N)
