"""Makes torch's recurrent layers read their weights through the gates."""

from __future__ import annotations

from torch import Tensor, nn


def read_through_gates_(module: nn.Module) -> None:
    """Makes `_flat_weights` of a gated RNN, LSTM or GRU computed, in place; ignores other modules.

    torch's recurrent layers compute from a list that is filled once, at construction, and would
    never see a parametrized weight.
    """
    if isinstance(module, nn.RNNBase):
        module.__dict__.pop("_flat_weights", None)
        # The class is the one that parametrize made for this module alone.
        type(module)._flat_weights = property(_current, _ignore)  # type: ignore[assignment]
        type(module)._update_flat_weights = _nothing_to_update  # type: ignore[assignment]


def read_directly_(module: nn.Module) -> None:
    """Restores the ordinary list of a finished recurrent layer, in place; ignores other modules."""
    if isinstance(module, nn.RNNBase):
        module._flat_weights = _current(module)


def _current(module: nn.RNNBase) -> list[Tensor | None]:
    return [getattr(module, name, None) for name in module._flat_weights_names]


def _ignore(module: nn.RNNBase, value: list[Tensor | None]) -> None:
    """Ignores what torch would store, such as after `.to(device)`: it is computed at each read."""


def _nothing_to_update(module: nn.RNNBase) -> None:
    """Skips torch's check of all weights before a pass, which would draw masks several times."""
