"""Sends the epochs of a run to Weights & Biases or to trackio."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sparsegate_lab.record import Epoch, Record

from .watch import Watcher

if TYPE_CHECKING:
    from .run import Run

Service: TypeAlias = Literal["wandb", "trackio"]
CURVES = ("loss", "validation", "kept", "undecided", "flipped", "variance")
"""The fields of an epoch that are curves: those of TensorBoard."""


class Tracker(Watcher):
    """Logs a run with `wandb` or with `trackio`, under the run's name and with its settings.

    >>> train(run, watch=Tracker("trackio"))  # doctest: +SKIP

    A run that resumes goes on with the curves that it had. The services read their own settings
    from the environment, such as WANDB_MODE=offline and TRACKIO_DIR.

    Args:
        service: `wandb` or `trackio`; the package must be installed.
        project: The project that the run belongs to.

    Raises:
        ImportError: If the package is not installed.
    """

    def __init__(self, service: Service = "wandb", *, project: str = "sparsegate") -> None:
        self.service, self.project = service, project
        try:
            self._module: Any = importlib.import_module(service)
        except ImportError as error:
            raise ImportError(
                f"{service} is not installed, so the run cannot be tracked; "
                f'install it: pip install "sparsegate-lab[{service}]"'
            ) from error
        self._is_open = False

    def began(self, run: Run, folder: Path, step: int, steps: int, num_weights: int) -> None:  # type: ignore[type-arg]
        """Opens the run at the service."""
        where = {"id": run.name, "dir": str(folder)} if self.service == "wandb" else {}
        config = {**run.to_json(), "num_weights": num_weights}
        self._module.init(
            project=self.project, name=run.name, config=config, resume="allow", **where
        )
        self._is_open = True

    def measured(self, epoch: Epoch) -> None:
        """Adds one point to every curve."""
        self._module.log({name: getattr(epoch, name) for name in CURVES}, step=epoch.epoch)

    def ended(self, record: Record) -> None:
        """Adds the accuracy and the size of the finished network."""
        found = {"test": record.test, "rate": record.rate}
        self._module.log(found, step=len(record.epochs))

    def closed(self) -> None:
        """Closes the run."""
        if self._is_open:
            self._is_open = False
            self._module.finish()
