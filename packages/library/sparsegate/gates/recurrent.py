"""Makes torch's recurrent layers read their weights through the gates."""

from __future__ import annotations

from torch import Tensor, nn


def read_through_gates_(module: nn.Module) -> None:
    """Gives a gated RNN, LSTM or GRU a computed `_flat_weights`, in place; other modules are left alone.

    torch's recurrent layers compute from a list that is filled once, at construction, and would
    never see a parametrized weight.
    """
    if isinstance(module, nn.RNNBase):
        module.__dict__.pop("_flat_weights", None)
        # The class is the one that parametrize made for this module alone.
        type(module)._flat_weights = property(_current, _ignore)  # type: ignore[assignment]
        type(module)._update_flat_weights = _nothing_to_update  # type: ignore[assignment]


def read_directly_(module: nn.Module) -> None:
    """Gives a finished recurrent layer its ordinary list back, in place; other modules are left alone."""
    if isinstance(module, nn.RNNBase):
        module._flat_weights = _current(module)


def _current(module: nn.RNNBase) -> list[Tensor | None]:
    return [getattr(module, name, None) for name in module._flat_weights_names]


def _ignore(module: nn.RNNBase, value: list[Tensor | None]) -> None:
    """What torch would store here (after `.to(device)`, say) is computed at each read instead."""


def _nothing_to_update(module: nn.RNNBase) -> None:
    """Before a pass torch compares every weight with its list, which would draw each mask several times."""
