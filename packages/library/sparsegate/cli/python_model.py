"""Opens a model that a function of the user's own makes: `module:function`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sparsegate.bench import Given
from sparsegate.named_object import named_object

ABOUT = "module:function, or file.py:function, that gives a model and one batch of its inputs"


@dataclass(frozen=True)
class PythonModel:
    """A model, and inputs of it."""

    name: str
    model: nn.Module
    given: Given


def open_python(word: str) -> PythonModel:
    """The model and the inputs that `module:function` gives.

    The function takes no arguments and returns a pair: the model, and an example of its inputs (a
    tensor, a tuple of arguments or a dict of keyword arguments).
    """
    module, _, name = word.rpartition(":")
    function = named_object(word)
    if not callable(function):
        raise ValueError(f"{module} has no function {name}")
    made = function()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module)):
        raise ValueError(
            f"expected a pair of a model and an example of its inputs from {word}, got "
            f"{type(made).__name__}; return (model, torch.zeros(1, 3, 224, 224)), for example"
        )
    model, example = made
    given = Given(example if isinstance(example, Tensor | Mapping | tuple | list) else (example,))
    if not given.tensors or not given.tensors[0].ndim:
        raise ValueError(f"the example of {word} has no tensor with a batch dimension")
    _check_runs(word, model, given)
    return PythonModel(name, model.eval(), given)


def _check_runs(word: str, model: nn.Module, given: Given) -> None:
    try:
        with torch.no_grad():
            given.call(model.eval())(*given.tensors)
    except Exception as error:
        first = str(error).partition("\n")[0]
        raise ValueError(
            f"the model of {word} does not run on its example: {type(error).__name__}: {first}"
        ) from error
