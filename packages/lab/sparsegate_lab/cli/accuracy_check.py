"""A network tried on the data of its run."""

from __future__ import annotations

from typing import Any, Literal

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from sparsegate.files import tune_
from sparsegate_lab.data import Storing, load_data
from sparsegate_lab.train import Batches, Run, accuracy, augments_of, empty_network, normaliser_of


class Trial:
    """The data and the model of a run, for networks that are variants of the one it made."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._run = run = Run.from_json(settings)
        self._data = load_data(run.data, Storing(run.stored_size, run.bad_images))
        self._view = normaliser_of(run, self._data)

    def accuracies(self, state: dict[str, Tensor]) -> str:
        """Validation and test accuracy, in words."""
        model, accelerator = self._model(state), Accelerator(cpu=True)
        each = [
            accuracy(model, split, self._view, accelerator)
            for split in (self._data.validation, self._data.test)
        ]
        return f"validation {each[0]:.2f} %, test {each[1]:.2f} %"

    def tuned(
        self,
        state: dict[str, Tensor],
        epochs: int,
        *,
        per: Literal["layer", "network"],
        origin: dict[str, Tensor],
    ) -> dict[str, Tensor]:
        """The network with its few values trained on the run's training images."""
        run, model = self._run, self._model(state)
        batches = Batches(self._data.train, self._view, augments_of(run), run.batch_size, run.seed)
        each = (batches.epoch(number) for number in range(epochs))
        steps = (epoch[place] for epoch in each for place in range(len(batches)))
        tune_(model, steps, per=per, origin=self._model(origin), num_batches=epochs * len(batches))
        return model.state_dict()

    def _model(self, state: dict[str, Tensor]) -> nn.Module:
        model = empty_network(self._run, self._data.num_classes)
        model.load_state_dict(state)
        return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
