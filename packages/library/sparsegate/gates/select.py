"""Which weights of a model get gates."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils import parametrize

GATED_TYPES: tuple[type[nn.Module], ...] = (
    nn.Linear,
    nn.Bilinear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.Embedding,
    nn.EmbeddingBag,
    nn.MultiheadAttention,
    nn.RNNBase,
    nn.RNNCellBase,
)
# Layers of other libraries, by module and name: only an imported one can be part of a model.
FOREIGN_TYPES = (("transformers.pytorch_utils", "Conv1D"),)


class Site(NamedTuple):
    """A module of a model and the name of one of its parameters."""

    path: str
    """The module's name in the model, empty for the model itself."""
    module: nn.Module
    tensor: str
    """The parameter's name in the module."""

    @property
    def name(self) -> str:
        """The parameter's name in the model's state dict before gating."""
        return f"{self.path}.{self.tensor}" if self.path else self.tensor

    @property
    def parameter(self) -> nn.Parameter:
        """The parameter itself."""
        parameter = self.module._parameters[self.tensor]
        assert parameter is not None
        return parameter


@dataclass(frozen=True)
class Select:
    """Chooses weights by the type of their layer and by name patterns.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> [site.name for site in Select(names=("0.*",)).sites(model)]
    ['0.weight']

    A weight is a parameter with "weight" in its name and two or more dimensions. Biases and norms
    never get gates.

    Raises:
        ValueError: If a string is given where a tuple is expected.
    """

    types: tuple[type[nn.Module], ...] = GATED_TYPES
    """Layers whose weights get gates, subclasses included; may contain types of your own.

    The default includes `Conv1D` of transformers, which GPT-2 is made of.
    """

    names: tuple[str, ...] = ("*",)
    """Patterns of weight names, such as `fc*` or `encoder.*.weight`; one must match."""

    skip: tuple[str, ...] = ()
    """Patterns of weight names that get no gates."""

    def __post_init__(self) -> None:
        for name in ("types", "names", "skip"):
            value = getattr(self, name)
            if isinstance(value, str):
                field = "names" if name == "types" else name
                raise ValueError(
                    f"{name} is a tuple, got the string {value!r}; "
                    f"write Select({field}=({value!r},))"
                )

    def sites(self, model: nn.Module) -> list[Site]:
        """The chosen weights, and every other parameter that is tied to one of them.

        Args:
            model: A model without gates.

        Raises:
            ValueError: If nothing matches, or a chosen weight cannot have a gate.
        """
        self._check_no_other_parametrization(model)
        candidates = [site for site in _sites(model) if self._fits(site)]
        chosen = [site for site in candidates if self._wants(site.name)]
        if not chosen:
            raise ValueError(self._nothing([site.name for site in candidates]))
        tied = {id(site.parameter) for site in chosen}
        sites = [site for site in _sites(model) if id(site.parameter) in tied]
        for site in sites:
            _check_gateable(site)
        return sites

    def _fits(self, site: Site) -> bool:
        return (
            isinstance(site.module, self._all_types())
            and "weight" in site.tensor
            and _is_matrix(site.parameter)
        )

    def _all_types(self) -> tuple[type[nn.Module], ...]:
        """The types, with those of other libraries unless the user chose types."""
        return (*GATED_TYPES, *_imported_types()) if self.types is GATED_TYPES else self.types

    def _wants(self, name: str) -> bool:
        return _any(self.names, name) and not _any(self.skip, name)

    def _check_no_other_parametrization(self, model: nn.Module) -> None:
        for path, module in model.named_modules():
            if isinstance(module, self._all_types()) and parametrize.is_parametrized(module):
                for tensor in module.parametrizations:  # type: ignore[union-attr]
                    name = f"{path}.{tensor}" if path else str(tensor)
                    if "weight" in str(tensor) and self._wants(name):
                        raise ValueError(
                            f"{name} has a parametrization already; remove it, or skip it: "
                            f"Select(skip=({name!r},))"
                        )

    def _nothing(self, candidates: list[str]) -> str:
        asked = f"names={list(self.names)}" + (f", skip={list(self.skip)}" if self.skip else "")
        if candidates:
            return f"no weight matches {asked}; the model's weights are {', '.join(candidates)}"
        types = ", ".join(kind.__name__ for kind in self.types)
        return f"the model has no layer of the types {types}; name yours: Select(types=(MyLayer,))"


def _imported_types() -> list[type[nn.Module]]:
    modules = [(sys.modules.get(module), name) for module, name in FOREIGN_TYPES]
    return [getattr(module, name) for module, name in modules if hasattr(module, name)]


def _sites(model: nn.Module) -> Iterator[Site]:
    for path, module in model.named_modules():
        for tensor, parameter in module._parameters.items():
            if parameter is not None:
                yield Site(path, module, tensor)


def _any(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_matrix(parameter: nn.Parameter) -> bool:
    return isinstance(parameter, UninitializedParameter) or (
        parameter.ndim >= 2 and parameter.numel() > 0
    )


def _check_gateable(site: Site) -> None:
    if isinstance(site.parameter, UninitializedParameter):
        raise ValueError(
            f"{site.name} has no shape yet (a lazy layer); "
            "run one batch through the model, then gate it"
        )
    if getattr(site.module, "sparse", False):
        raise ValueError(
            f"{site.path} gives sparse gradients, which gates cannot use; "
            "build it with sparse=False"
        )
    if _is_made_into_a_weight(site):
        raise ValueError(
            f"{site.name} is made into a weight by a hook (weight_norm, spectral_norm, prune); "
            "remove it first"
        )
    if not site.parameter.is_floating_point():
        raise ValueError(
            f"{site.name} is {site.parameter.dtype}; gates need a floating-point weight"
        )


def _is_made_into_a_weight(site: Site) -> bool:
    stem, _, end = site.tensor.rpartition("_")
    return end in ("g", "v", "orig") and hasattr(site.module, stem)
