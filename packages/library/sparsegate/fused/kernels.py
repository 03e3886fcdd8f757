"""The Triton kernels: one step of weights and gates, or of gates alone, in one pass."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def scattered(at, seed):
    """Numbers that look random, of 32 bits: murmur's last steps, far less work than triton's own."""
    bits = at.to(tl.uint32) ^ (seed.to(tl.uint32) * 0x9E3779B9)
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return bits ^ (bits >> 16)


# fmt: off
@triton.jit
@no_type_check
def move_block(
    weights, speeds, gates, gate_speeds, grads, at, inside,
    lr, momentum, decay, gate_lr, gate_momentum, base, tilt, seed, FLAG: tl.constexpr,
):
    """As `move.move`, for one block of one weight; the flag says that the gates have 16 bits."""
    weight = tl.load(weights + at, mask=inside).to(tl.float32)
    grad = tl.load(grads + at, mask=inside).to(tl.float32)
    gate = tl.load(gates + at, mask=inside).to(tl.float32)
    speed = tl.load(speeds + at, mask=inside).to(tl.float32)
    gate_speed = tl.load(gate_speeds + at, mask=inside).to(tl.float32)

    speed = speed * momentum + tl.where(gate > 0.5, grad, 0.0) + weight * decay
    gate_speed = gate_speed * gate_momentum + grad * weight + base + gate * tilt
    gate = tl.minimum(tl.maximum(gate - gate_lr * gate_speed, 0.0), 1.0)
    if FLAG:
        bits = gate.to(tl.int32, bitcast=True) + (scattered(at, seed) & 0x1FFF).to(tl.int32)
        gate = (bits & -8192).to(tl.float32, bitcast=True)

    tl.store(weights + at, (weight - lr * speed).to(weights.dtype.element_ty), mask=inside)
    tl.store(speeds + at, speed.to(speeds.dtype.element_ty), mask=inside)
    tl.store(gates + at, gate.to(gates.dtype.element_ty), mask=inside)
    tl.store(gate_speeds + at, gate_speed.to(gate_speeds.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["seed"])
@no_type_check
def move_kernel(
    weights, speeds, gates, gate_speeds, grads, sizes, bases, tilts,
    lr, momentum, decay, gate_lr, gate_momentum, seed,
    FLAG: tl.constexpr, BLOCK: tl.constexpr,
):
    """Several weights, each in contiguous memory: tuples, because one launch costs as much as moving a small one."""
    block = tl.program_id(0)
    for i in tl.static_range(len(sizes)):
        num_blocks = (sizes[i] + BLOCK - 1) // BLOCK
        if (block >= 0) & (block < num_blocks):
            at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
            move_block(
                weights[i], speeds[i], gates[i], gate_speeds[i], grads[i], at, at < sizes[i],
                lr, momentum, decay, gate_lr, gate_momentum, bases[i], tilts[i], seed + i, FLAG,
            )
        block -= num_blocks


@triton.jit
@no_type_check
def move_gates_kernel(
    gates, speeds, grads, size, lr, momentum, base, tilt, FLAG: tl.constexpr, BLOCK: tl.constexpr
):
    """As GateSGD, for contiguous memory; the flag says that there is a gradient."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    gate = tl.load(gates + at, mask=inside).to(tl.float32)
    speed = tl.load(speeds + at, mask=inside).to(tl.float32) * momentum + base + gate * tilt
    if FLAG:
        speed += tl.load(grads + at, mask=inside).to(tl.float32)
    gate = tl.minimum(tl.maximum(gate - lr * speed, 0.0), 1.0)
    tl.store(gates + at, gate.to(gates.dtype.element_ty), mask=inside)
    tl.store(speeds + at, speed.to(speeds.dtype.element_ty), mask=inside)
# fmt: on
