"""Says in a table what every layer of a planned model costs, and what more zeros would gain."""

from __future__ import annotations

from collections.abc import Sequence

from sparsegate_runtime.engine import peak

from .modules import Swap
from .planned import Cost, Planned

HEADER = ("layer", "kind", "zeros", "time", "share", "GFLOP/s", "of peak")


def engine_table(plan: Planned, report: Sequence[Swap], costs: Sequence[Cost]) -> str:
    """A line for each layer and other operation; then totals, gains, memory and torch's share.

    Args:
        plan: the plan that was measured.
        report: the layers of the model, with their zeros.
        costs: what each layer takes, in order.

    """
    total = sum(cost.milliseconds for cost in costs) or 1.0
    fastest = peak(plan.plan.variant)
    zeros = {change.name: change for change in report}
    rows: list[tuple[str, ...]] = [HEADER]
    for cost in costs:
        change = zeros.get(cost.name)
        kind, empty = (change.kind, f"{change.sparsity:.1%}") if change else ("", "")
        spent, share = f"{cost.milliseconds:.3f} ms", f"{cost.milliseconds / total:.1%}"
        rows.append((cost.name, kind, empty, spent, share, *_rates(cost, fastest)))
    widths = [max(len(row[index]) for row in rows) for index in range(len(HEADER))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += _summary(plan, costs, fastest)
    missing = [name for name in zeros if name not in {cost.name for cost in costs}]
    if missing:
        lines.append(f"part of other layers, or not reached: {', '.join(missing)}")
    if plan.left:
        lines.append(f"by torch, which the engine cannot run: {', '.join(sorted(set(plan.left)))}")
    return "\n".join(lines)


def _rates(cost: Cost, fastest: float) -> tuple[str, str]:
    if not cost.work or not fastest:
        return "", ""
    rate = 1e3 * cost.work / max(cost.milliseconds, 1e-6)
    return f"{rate / 1e9:.1f}", f"{rate / fastest:.0%}"


def _summary(plan: Planned, costs: Sequence[Cost], fastest: float) -> list[str]:
    """Lines on the whole network: its share of the peak, the gain of more zeros, its memory."""
    total, work = sum(cost.milliseconds for cost in costs), sum(cost.work for cost in costs)
    lines = []
    if work and fastest:
        rate = 1e3 * work / max(total, 1e-6)
        lines.append(
            f"whole network on one thread: {total:.3f} ms, {rate / 1e9:.1f} GFLOP/s, "
            f"{rate / fastest:.0%} of this machine's peak of {fastest / 1e9:.0f} GFLOP/s (one load "
            "per multiply-add, first-level cache)"
        )
        saved = gain_of_more_zeros(costs, fastest)
        lines.append(
            f"with half of the kept weights: about {total - saved:.3f} ms, "
            f"{total / max(total - saved, 1e-6):.2f} times as fast"
        )
    weights, activations = plan.plan.weight_bytes / 2**20, 4 * plan.plan.arena / 2**20
    lines.append(
        f"memory: {weights:.1f} MiB of packed weights, {activations:.1f} MiB of activations for "
        "each thread that calls"
    )
    return lines


def gain_of_more_zeros(costs: Sequence[Cost], fastest: float) -> float:
    """The milliseconds that half of the kept weights would save.

    Only the multiplications get fewer, and at best they run at the peak: what a layer takes beyond
    that stays.
    """
    return sum(
        0.5 * min(cost.milliseconds, 1e3 * cost.work / fastest)
        for cost in costs
        if cost.has_weights
    )
