"""A Triton kernel that moves one parameter of all members in a single pass over its memory."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def _adapted(speed, grad, momentum, adapt, square, mask, NEW: tl.constexpr, TINY: tl.constexpr):
    """The step over the size of gradients, which is kept in mind; the speed itself where steps do not adapt."""
    s = tl.load(square, mask=mask)
    s = tl.where(adapt > 0, s + NEW * (grad * grad - s), s)
    tl.store(square, s, mask=mask)
    return tl.where(adapt > 0, speed * (1.0 - momentum) / (tl.sqrt(s * adapt) + TINY), speed)


@triton.jit
@no_type_check
def move(
    weight,  # [member, size], as are all up to grad
    speed,
    gate,
    gate_speed,
    noise,
    average,
    square,
    grad,
    rates,  # [8, member]: lr, momentum, decay, gate_lr, gate_momentum, price, blend, adapt
    base,  # [member]
    tilt,  # [member]
    size,
    members,
    GATED: tl.constexpr,
    SAMPLED: tl.constexpr,
    TILTED: tl.constexpr,
    AVERAGED: tl.constexpr,
    ADAPTED: tl.constexpr,
    NEW: tl.constexpr,
    TINY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What `move_` does, for one block of one member."""
    member = tl.program_id(1)
    inside = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = inside < size
    at = member.to(tl.int64) * size + inside
    w = tl.load(weight + at, mask=mask)
    v = tl.load(speed + at, mask=mask)
    d = tl.load(grad + at, mask=mask)
    to_weight = d
    if GATED:
        g = tl.load(gate + at, mask=mask)
        u = tl.load(gate_speed + at, mask=mask)
        score = g
        if SAMPLED:
            score = g - tl.load(noise + at, mask=mask) + 0.5
        to_weight = tl.where(score > 0.5, d, 0.0)
        price = tl.load(rates + 5 * members + member)
        u = u * tl.load(rates + 4 * members + member) + d * w + price * tl.load(base + member)
        if TILTED:
            u += g * (price * tl.load(tilt + member))
        g = g - tl.load(rates + 3 * members + member) * u
        tl.store(gate + at, tl.minimum(tl.maximum(g, 0.0), 1.0), mask=mask)
        tl.store(gate_speed + at, u, mask=mask)
    momentum = tl.load(rates + members + member)
    to_weight += w * tl.load(rates + 2 * members + member)
    v = v * momentum + to_weight
    step = v
    if ADAPTED:
        step = _adapted(
            v,
            to_weight,
            momentum,
            tl.load(rates + 7 * members + member),
            square + at,
            mask,
            NEW,
            TINY,
        )
    w = w - tl.load(rates + member) * step
    tl.store(speed + at, v, mask=mask)
    tl.store(weight + at, w, mask=mask)
    if AVERAGED:
        a = tl.load(average + at, mask=mask)
        # From the far end, so that a share of one gives the weight itself.
        tl.store(
            average + at, w - (w - a) * (1.0 - tl.load(rates + 6 * members + member)), mask=mask
        )
