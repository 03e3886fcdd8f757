"""Takes the training steps of all members at once; on a GPU, by replaying a CUDA graph."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sparsegate.distil import soft_loss

from .inputs import Batch, ManyInputs
from .schedule_table import NUM_KNOBS
from .stack import Stack
from .teacher import Opinion
from .update import ManyRates, can_fuse, move_, move_fused_

WARM_UP = 3  # steps before recording, as torch asks for


class Steps:
    """Takes steps; what differs between steps is read from tensors on the device."""

    def __init__(
        self, stack: Stack, inputs: ManyInputs, opinion: Opinion | None, device: torch.device
    ) -> None:
        self.stack, self.inputs, self.opinion, self.device = stack, inputs, opinion, device
        members = stack.members
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.losses = torch.zeros(len(members), device=device)
        self.table = torch.zeros(inputs.steps, NUM_KNOBS, len(members), device=device)
        self.momentum = torch.tensor([member.run.momentum for member in members], device=device)
        moving = [getattr(member.run.method, "gate_momentum", 0.0) for member in members]
        self.gate_momentum = torch.tensor(moving, device=device)
        self.share = torch.tensor([member.share for member in members], device=device)
        self.temperature = torch.tensor([member.temperature for member in members], device=device)
        self.bf16 = members[0].run.precision == "bf16"
        self.move = move_fused_ if device.type == "cuda" and can_fuse() else move_
        self.graph: torch.cuda.CUDAGraph | None = None

    def begin(self, table: Float[Tensor, "step knob member"]) -> None:
        """Prepares the first step of an epoch with these settings."""
        self.table.copy_(table)
        self.at.zero_()
        self.losses.zero_()

    def anew(self) -> None:
        """Prepares for weights of other shapes."""
        self.graph = None

    def take(self, step: int) -> None:
        """Takes the next step; `step` counts from the beginning of training."""
        self.stack.draw_noise(step)
        if self.device.type == "cuda" and self.graph is None:
            self.graph = self._recorded()
        if self.graph is None:
            self._step()
        else:
            self.graph.replay()

    def _step(self) -> None:
        leaves = self.stack.leaves()
        loss = self._loss(self.inputs.batch(self.at), leaves)
        grads = torch.autograd.grad(loss.sum(), list(leaves.values()))
        rates = self._rates()
        for param, grad in zip(self.stack.active.values(), grads, strict=True):
            self.move(param, grad, rates)
        self.losses += loss.detach()
        self.at += 1

    def _loss(self, batch: Batch, leaves: dict[str, Tensor]) -> Float[Tensor, " member"]:
        """Each member's mean loss over its part of the batch."""
        members = len(self.stack.members)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            logits = self.stack.run(batch.images, leaves)
        hard = (
            F.cross_entropy(logits.float(), batch.labels, reduction="none")
            .view(members, -1)
            .mean(1)
        )
        if self.opinion is None:
            return hard
        wanted = self.opinion(batch.chosen, batch.offsets)
        temperature = self.temperature.repeat_interleave(self.inputs.size)
        soft = soft_loss(logits.float(), wanted, temperature).view(members, -1).mean(1)
        return (1 - self.share) * hard + self.share * soft

    def _rates(self) -> ManyRates:
        lr, gate_lr, price, blend, decay, adapt = self.table.index_select(0, self.at)[0].unbind(0)
        return ManyRates(lr, self.momentum, decay, gate_lr, self.gate_momentum, price, blend, adapt)

    def _recorded(self) -> torch.cuda.CUDAGraph:
        """Returns a recorded graph of one step; the warm-up steps are undone."""
        kept = [*self.stack.moving(), self.at, self.losses]
        before = [tensor.clone() for tensor in kept]
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        torch._foreach_copy_(kept, before)
        return graph
