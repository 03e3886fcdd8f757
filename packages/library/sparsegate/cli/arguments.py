"""A parser for the arguments of a verb, whose errors are ValueErrors of one line."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

SOURCE = (
    "a .sparse.safetensors, .sg, .safetensors, .onnx or .tflite file, a state dict saved by torch "
    "(.pt), or the folder of a run"
)


class Parser(argparse.ArgumentParser):
    """Parses the arguments of one verb.

    >>> Parser("demo", "A demonstration.").parse(["--help-me"])
    Traceback (most recent call last):
    ...
    ValueError: unrecognized arguments: --help-me; did you mean --help? see sparsegate demo --help
    """

    def __init__(self, verb: str, about: str) -> None:
        super().__init__(prog=f"sparsegate {verb}", description=about, allow_abbrev=False)

    def add_source(self, name: str = "source") -> None:
        """Adds the positional argument that says which network is meant."""
        self.add_argument(name, type=Path, metavar=name.upper(), help=SOURCE)

    def add_model(self) -> None:
        """Adds --model."""
        about = "name of the model (default: the run's own, or the one whose tensors fit the file)"
        self.add_argument("--model", metavar="NAME", help=about)

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """The values; prints the help and exits if asked to."""
        options, unknown = self.parse_known_args(argv)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._suggestion(unknown)}")
        return options

    def error(self, message: str) -> NoReturn:
        """Raises a ValueError that names the help."""
        separator = "" if message.endswith("?") else ";"
        raise ValueError(f"{message}{separator} see {self.prog} --help")

    def _suggestion(self, unknown: Sequence[str]) -> str:
        for word in unknown:
            near = difflib.get_close_matches(word.partition("=")[0], self._option_string_actions)
            if word.startswith("--") and near:
                return f"; did you mean {near[0]}?"
        return ""
