"""A Triton kernel that updates one parameter of all members in one pass over memory."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

from sparsegate.optimizers import next_gate, next_weight


@triton.jit
@no_type_check
def next_weight_by_adam(
    w, v, grad, lr, momentum, decay, adapt, square, mask, NEW: tl.constexpr, TINY: tl.constexpr
):
    """Like `next_weight`; where `adapt` is not zero, the step is divided by the gradients' size."""
    grad += w * decay
    s = tl.load(square, mask=mask)
    s = tl.where(adapt > 0, s + NEW * (grad * grad - s), s)
    tl.store(square, s, mask=mask)
    v = v * momentum + grad
    step = tl.where(adapt > 0, v * (1.0 - momentum) / (tl.sqrt(s * adapt) + TINY), v)
    return w - lr * step, v


# fmt: off
@triton.jit
@no_type_check
def move(
    weight, speed, gate, gate_speed, noise, average, square, grad,  # each [member, size]
    rates,  # [8, member]: lr, momentum, decay, gate_lr, gate_momentum, price, blend, adapt
    base, tilt,  # each [member]
    size, members,
    GATED: tl.constexpr, SAMPLED: tl.constexpr, TILTED: tl.constexpr, AVERAGED: tl.constexpr,
    ADAPTED: tl.constexpr, NEW: tl.constexpr, TINY: tl.constexpr, BLOCK: tl.constexpr,
):
    """Like `update.move_`, for one block of one member."""
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
        score = g - tl.load(noise + at, mask=mask) + 0.5 if SAMPLED else g
        to_weight = tl.where(score > 0.5, d, 0.0)  # 0.5 is OPEN_ABOVE
        price = tl.load(rates + 5 * members + member)
        g, u = next_gate(
            g,
            tl.load(gate_speed + at, mask=mask),
            d * w,
            tl.load(rates + 3 * members + member),
            tl.load(rates + 4 * members + member),
            price * tl.load(base + member),
            price * tl.load(tilt + member) if TILTED else 0.0,
            0.0,
        )
        tl.store(gate + at, g, mask=mask)
        tl.store(gate_speed + at, u, mask=mask)
    lr = tl.load(rates + member)
    momentum = tl.load(rates + members + member)
    decay = tl.load(rates + 2 * members + member)
    if ADAPTED:
        adapt = tl.load(rates + 7 * members + member)
        w, v = next_weight_by_adam(
            w, v, to_weight, lr, momentum, decay, adapt, square + at, mask, NEW, TINY
        )
    else:
        w, v = next_weight(w, v, to_weight, lr, momentum, decay)
    tl.store(speed + at, v, mask=mask)
    tl.store(weight + at, w, mask=mask)
    if AVERAGED:
        a = tl.load(average + at, mask=mask)
        blend = tl.load(rates + 6 * members + member)
        # From the far end, so that a blend of one gives the weight itself.
        tl.store(average + at, w - (w - a) * (1.0 - blend), mask=mask)
# fmt: on
