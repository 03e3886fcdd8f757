"""Triton kernels for one step of weights and gates, or of gates alone, in one pass over memory."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def next_weight(weight, velocity, grad, lr, momentum, decay):
    """The rule of weights, as `step.step_weight_`: the new weight and its velocity."""
    velocity = velocity * momentum + grad + weight * decay
    return weight - lr * velocity, velocity


@triton.jit
@no_type_check
def next_gate(gate, velocity, grad, lr, momentum, base, tilt, shift):
    """The rule of gates, as `step.step_gate_`: the new gate and its velocity."""
    velocity = velocity * momentum + grad + base + gate * tilt
    return tl.minimum(tl.maximum(gate - lr * velocity - shift, 0.0), 1.0), velocity


@triton.jit
@no_type_check
def scattered(at, seed):
    """Pseudo-random 32-bit numbers: the last steps of murmur, much cheaper than tl.rand."""
    bits = at.to(tl.uint32) ^ (seed.to(tl.uint32) * 0x9E3779B9)
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return bits ^ (bits >> 16)


# fmt: off
@triton.jit
@no_type_check
def step_block(
    weights, velocities, gates, gate_velocities, grads, at, inside,
    lr, momentum, decay, gate_lr, gate_momentum, base, tilt, shift, seed, HALF: tl.constexpr,
):
    """As `step.step_gated_`, for one block of one weight. HALF says that gates have 16 bits."""
    weight = tl.load(weights + at, mask=inside).to(tl.float32)
    grad = tl.load(grads + at, mask=inside).to(tl.float32)
    gate = tl.load(gates + at, mask=inside).to(tl.float32)
    velocity = tl.load(velocities + at, mask=inside).to(tl.float32)
    gate_velocity = tl.load(gate_velocities + at, mask=inside).to(tl.float32)

    to_gate = grad * weight
    to_weight = tl.where(gate > 0.5, grad, 0.0)  # 0.5 is OPEN_ABOVE
    weight, velocity = next_weight(weight, velocity, to_weight, lr, momentum, decay)
    gate, gate_velocity = next_gate(
        gate, gate_velocity, to_gate, gate_lr, gate_momentum, base, tilt, shift
    )
    if HALF:  # stochastic rounding
        bits = gate.to(tl.int32, bitcast=True) + (scattered(at, seed) & 0x1FFF).to(tl.int32)
        gate = (bits & -8192).to(tl.float32, bitcast=True)

    tl.store(weights + at, weight.to(weights.dtype.element_ty), mask=inside)
    tl.store(velocities + at, velocity.to(velocities.dtype.element_ty), mask=inside)
    tl.store(gates + at, gate.to(gates.dtype.element_ty), mask=inside)
    tl.store(gate_velocities + at, gate_velocity.to(gate_velocities.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["seed"])
@no_type_check
def step_kernel(
    weights, velocities, gates, gate_velocities, grads, shift, sizes, bases, tilts,
    lr, momentum, decay, gate_lr, gate_momentum, seed,
    SHIFTED: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr,
):
    """Several weights in one launch, passed as tuples: a launch costs as much as a small weight."""
    lowered = tl.load(shift) if SHIFTED else 0.0
    block = tl.program_id(0)
    for i in tl.static_range(len(sizes)):
        num_blocks = (sizes[i] + BLOCK - 1) // BLOCK
        if (block >= 0) & (block < num_blocks):
            at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
            step_block(
                weights[i], velocities[i], gates[i], gate_velocities[i], grads[i], at,
                at < sizes[i], lr, momentum, decay, gate_lr, gate_momentum, bases[i], tilts[i],
                lowered, seed + i, HALF,
            )
        block -= num_blocks


@triton.jit
@no_type_check
def step_gates_kernel(
    gates, velocities, grads, shift, size, lr, momentum, base, tilt,
    SHIFTED: tl.constexpr, HAS_GRAD: tl.constexpr, BLOCK: tl.constexpr,
):
    """As `step.step_gate_`, for gates in contiguous memory."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    gate = tl.load(gates + at, mask=inside).to(tl.float32)
    velocity = tl.load(velocities + at, mask=inside).to(tl.float32)
    grad = tl.load(grads + at, mask=inside).to(tl.float32) if HAS_GRAD else 0.0
    lowered = tl.load(shift) if SHIFTED else 0.0
    gate, velocity = next_gate(gate, velocity, grad, lr, momentum, base, tilt, lowered)
    tl.store(gates + at, gate.to(gates.dtype.element_ty), mask=inside)
    tl.store(velocities + at, velocity.to(velocities.dtype.element_ty), mask=inside)
# fmt: on
