"""The settings that a sweep varies: ranges and choices, by the names of a run's flags."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from sparsegate_lab.train import Run

if TYPE_CHECKING:
    from optuna.trial import Trial

Value: TypeAlias = "float | int | str | bool | None"
DIGITS = 4
"""Significant digits of a drawn number, so that commands and tables can be read."""
BOOLS = {"true": True, "false": False}


@dataclass(frozen=True)
class Vary:
    """A setting that takes numbers between two ends.

    >>> Vary("lr", 0.01, 0.1, log=True)
    Vary(name='lr', low=0.01, high=0.1, log=True)
    """

    name: str
    """The setting, as its flag is called: lr, gate-lr, target.keep."""
    low: float | int
    high: float | int
    log: bool = False
    """Draw evenly on a logarithmic scale."""

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"{self.name} is varied from low to high, got {self.low}, {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(
                f"a logarithmic range begins above zero, got {self.name} from {self.low}"
            )

    @classmethod
    def from_words(cls, words: Sequence[str]) -> Vary:
        """The range in the words after --vary: NAME LOW HIGH, and log if it is logarithmic.

        >>> Vary.from_words(["target.keep", "0.01", "0.1", "log"])
        Vary(name='target.keep', low=0.01, high=0.1, log=True)
        """
        name, *ends = words or ("",)
        log = ends[2:] == ["log"]
        if len(ends) != 2 + log:
            raise ValueError(
                f"--vary takes NAME LOW HIGH, and log at the end for a logarithmic range, "
                f"got {' '.join(words)!r}"
            )
        try:
            low, high = (_number(word) for word in ends[:2])
        except ValueError:
            raise ValueError(
                f"--vary {name} takes two numbers, got {' '.join(ends[:2])!r}; "
                f"for other values use --choose {name} ..."
            ) from None
        return cls(name, low, high, log)

    @property
    def examples(self) -> tuple[Value, ...]:
        """Values that show whether the setting can be varied like this."""
        return self.low, self.high

    def fitted(self, run: Run[Any]) -> Vary:
        """The same range with ends of the setting's type."""
        kinds = kinds_of(run, self.name)
        if float in kinds:
            return dataclasses.replace(self, low=float(self.low), high=float(self.high))
        if int in kinds and self.low == int(self.low) and self.high == int(self.high):
            return dataclasses.replace(self, low=int(self.low), high=int(self.high))
        wanted = "whole numbers" if int in kinds else "no number: use --choose"
        raise ValueError(f"{self.name} takes {wanted}, got a range of {self.low} to {self.high}")

    def suggest(self, trial: Trial) -> Value:
        """The value that the sampler proposes."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(self.name, self.low, self.high, log=self.log)
        drawn = trial.suggest_float(self.name, float(self.low), float(self.high), log=self.log)
        rounded = float(f"{drawn:.{DIGITS}g}")
        return min(max(rounded, float(self.low)), float(self.high))


@dataclass(frozen=True)
class Choose:
    """A setting that takes one of some values.

    >>> Choose("draw", ("threshold", "sample"))
    Choose(name='draw', values=('threshold', 'sample'))
    """

    name: str
    """The setting, as its flag is called."""
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if len(set(self.values)) < 2 or len(set(self.values)) < len(self.values):
            raise ValueError(
                f"{self.name} needs two or more different values to choose from, got {self.values}"
            )

    @classmethod
    def from_words(cls, words: Sequence[str]) -> Choose:
        """The choice in the words after --choose: NAME VALUE VALUE ..."""
        name, *values = words or ("",)
        return cls(name, tuple(values))

    @property
    def examples(self) -> tuple[Value, ...]:
        """Values that show whether the setting can be varied like this."""
        return self.values

    def fitted(self, run: Run[Any]) -> Choose:
        """The same choice with values of the setting's type."""
        kinds = kinds_of(run, self.name)
        return Choose(self.name, tuple(_as_kind(self.name, value, kinds) for value in self.values))

    def suggest(self, trial: Trial) -> Value:
        """The value that the sampler proposes."""
        found: Value = trial.suggest_categorical(self.name, self.values)
        return found


Space: TypeAlias = "Sequence[Vary | Choose]"


def fitted_space(run: Run[Any], space: Space) -> tuple[Vary | Choose, ...]:
    """The space with values of the settings' types; raises if a setting cannot take them.

    Args:
        run: the run whose settings are varied.
        space: what varies.
    """
    if not space:
        raise ValueError("a sweep varies at least one setting: --vary lr 0.01 0.1 log")
    fitted = tuple(each.fitted(run) for each in space)
    names = [path_of(run, each.name) for each in fitted]
    if twice := [
        each.name for each, path in zip(fitted, names, strict=True) if names.count(path) > 1
    ]:
        raise ValueError(f"{twice[0]} is varied twice")
    for place in (0, -1):
        with_settings(run, {each.name: each.examples[place] for each in fitted})
    return fitted


def with_settings(run: Run[Any], values: Mapping[str, Value]) -> Run[Any]:
    """A run with some settings changed, all at once.

    >>> with_settings(Run(), {"lr": 0.1, "target.keep": 0.01}).method.target.keep
    0.01

    Args:
        run: the run.
        values: the values by the names of their flags.
    """
    changes: dict[str, Any] = {}
    for name, value in values.items():
        *owners, field = path_of(run, name)
        inner = changes
        for owner in owners:
            inner = inner.setdefault(owner, {})
        inner[field] = value
    changed: Run[Any] = _replaced(run, changes)
    return changed


def path_of(run: Run[Any], name: str) -> tuple[str, ...]:
    """The fields that lead from a run to a setting; those of the method have no prefix."""
    path = tuple(name.replace("-", "_").split("."))
    if path[0] == "method" or path[0] not in {each.name for each in dataclasses.fields(run)}:
        path = ("method", *path)
    settings: Any = run
    for place, field in enumerate(path):
        last = place == len(path) - 1
        known = (
            [each.name for each in dataclasses.fields(settings)]
            if dataclasses.is_dataclass(settings)
            else []
        )
        if field not in known or (last and dataclasses.is_dataclass(getattr(settings, field))):
            raise ValueError(
                f"{run.model} by {run.method_name} has no setting {name!r}; "
                "name it as its flag is called, such as lr or target.keep"
            )
        settings = getattr(settings, field)
    return path


def kinds_of(run: Run[Any], name: str) -> tuple[Any, ...]:
    """The types that a setting takes, and the values if it takes no others."""
    settings: Any = run
    *owners, field = path_of(run, name)
    for owner in owners:
        settings = getattr(settings, owner)
    kind = get_type_hints(type(settings))[field]
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return tuple(
        inner
        for each in kinds
        for inner in (get_args(each) if get_origin(each) is Literal else (each,))
    )


def _replaced(settings: Any, changes: Mapping[str, Any]) -> Any:
    return dataclasses.replace(
        settings,
        **{
            name: _replaced(getattr(settings, name), change) if isinstance(change, dict) else change
            for name, change in changes.items()
        },
    )


def _as_kind(name: str, value: Value, kinds: tuple[Any, ...]) -> Value:
    """A value, or the word of a command for it, as one of the types."""
    word = str(value)
    if value in kinds and isinstance(value, str):
        return value
    if bool in kinds and word.lower() in BOOLS:
        return BOOLS[word.lower()]
    if type(None) in kinds and word.lower() == "none":
        return None
    for kind in (int, float, str):
        if kind in kinds:
            try:
                return kind(word)
            except ValueError:
                continue
    raise ValueError(f"{name} takes {_in_words(kinds)}, got {word!r}")


def _in_words(kinds: tuple[Any, ...]) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", type(None): "none"}
    found = [words.get(kind, str(getattr(kind, "__name__", kind))) for kind in kinds]
    return " or ".join(found)


def _number(word: str) -> float | int:
    try:
        return int(word)
    except ValueError:
        return float(word)
