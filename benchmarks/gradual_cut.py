"""Gradual pruning by magnitude of any weights, in a training loop of one's own (Zhu and Gupta, 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparsegate.schedule import Gradual


class GradualCut:
    """Removes the smallest weights in many small cuts, along a cube of the steps.

    A removed weight stays removed.

    Args:
        weights: The weights of all layers.
        keep: The fraction of them that is left at the end.
        steps: The number of steps of the whole training.
        by_layer: Whether every layer keeps the same fraction, as in the paper, and at least one
            weight. Otherwise all weights are ranked together.
        cuts: The number of cuts.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        keep: float,
        steps: int,
        *,
        by_layer: bool = False,
        cuts: int = 100,
    ) -> None:
        self.weights, self.keep, self.steps, self.cuts = weights, keep, steps, cuts
        self.by_layer = by_layer
        self.schedule = Gradual()
        self.masks = [weight != 0 for weight in weights]  # what is zero was removed earlier
        self._done = 0

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Removes what is due after so many steps, and keeps removed weights at zero."""
        for weight, mask in zip(self.weights, self.masks, strict=True):
            weight.masked_fill_(~mask, 0.0)
        begin, end = self.schedule.begin, self.schedule.end
        due = int((step / self.steps - begin) / (end - begin) * self.cuts + 1e-9)
        if self._done < min(due, self.cuts):
            self._done = min(due, self.cuts)
            progress = begin + (end - begin) * self._done / self.cuts
            self._cut(self.schedule.keep(progress, of=self.keep))

    def _cut(self, keep: float) -> None:
        scores = [
            weight.abs().masked_fill(~mask, -1.0)
            for weight, mask in zip(self.weights, self.masks, strict=True)
        ]
        whole = torch.cat([score.flatten() for score in scores])
        for weight, mask, score in zip(self.weights, self.masks, scores, strict=True):
            mask &= score >= _level(score.flatten() if self.by_layer else whole, keep)
            weight.masked_fill_(~mask, 0.0)


def _level(scores: Tensor, keep: float) -> Tensor:
    """The smallest score that is kept."""
    return scores.topk(max(1, round(keep * len(scores)))).values[-1]
