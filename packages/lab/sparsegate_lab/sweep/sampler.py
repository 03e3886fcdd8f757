"""Draws the settings of a trial as a function of the seed, its number, and what ended before."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from optuna.samplers import BaseSampler, TPESampler

from sparsegate_lab.train import fold

from .lost import was_lost

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial


class RepeatableSampler(BaseSampler):
    """Optuna's TPE without a random state, so a resumed sweep draws what it would have drawn."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """No setting is drawn together with others."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing, as no setting is drawn together with others."""
        return {}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draws one setting by a fresh TPE with a seed for this trial and setting."""
        earlier = study.get_trials(deepcopy=False)[: trial.number]
        index = sum(not was_lost(each) for each in earlier)
        seed = fold(self._seed, "sweep", index, *param_name.encode())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = TPESampler(seed=seed % 2**32)
        return sampler.sample_independent(study, trial, param_name, param_distribution)
