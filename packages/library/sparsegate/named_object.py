"""Finds an object in code of the user's own by its name: `module:name` or `file.py:name`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any


def is_object_name(word: str) -> bool:
    """Whether a word on the command line is `module:name` rather than a path.

    >>> is_object_name("networks:small"), is_object_name("network.sg")
    (True, False)
    >>> is_object_name("models/net.py:small")
    True
    """
    module, colon, name = word.rpartition(":")
    return bool(colon) and bool(module) and name.isidentifier() and not Path(word).exists()


def named_object(word: str) -> Any:
    """The object that `module:name` names; modules of the current folder are found, too.

    Raises:
        ValueError: If there is no such file, module or name.
    """
    module, _, name = word.rpartition(":")
    found = getattr(_imported(module), name, None)
    if found is None:
        raise ValueError(f"{module} has no function or class {name}")
    return found


def _imported(module: str) -> Any:
    path = Path(module)
    folder = str(path.parent.resolve()) if path.suffix == ".py" else str(Path.cwd())
    if path.suffix == ".py" and not path.exists():
        raise ValueError(f"there is no file {path}")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem if path.suffix == ".py" else module
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"cannot import {name}: {error}; run the command in its folder, or name the file, "
            "such as folder/networks.py:small"
        ) from error
