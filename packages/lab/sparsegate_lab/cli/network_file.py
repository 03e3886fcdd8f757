"""A network from whatever a user points at: our files, a run's folder, safetensors, a state dict of torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparsegate.files import Packed, compress, load
from sparsegate_lab.models import read_state_dict

OURS = (".sparse.safetensors", ".sg")


def open_network(path: Path) -> Packed:
    """The network in a file or a run's folder; nothing in it is executed."""
    if path.is_dir():
        return _from_run(path)
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}")
    if path.name.endswith(OURS):
        return load(path)
    return compress(read_state_dict(path))


def run_of(path: Path) -> dict[str, Any] | None:
    """The settings of the run in a folder, if it is one."""
    about = path / "run.json"
    if not about.exists():
        return None
    try:
        settings = json.loads(about.read_text())
    except ValueError as error:
        raise ValueError(f"{about} is damaged ({error}); it should describe a run") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{about} does not describe a run: it holds a {type(settings).__name__}")
    return settings


def settings_around(path: Path) -> dict[str, Any]:
    """The settings of the run in a folder, or of the one that a file lies in; none if there is no run."""
    return run_of(path) or run_of(path.parent) or {}


def _from_run(path: Path) -> Packed:
    network = path / "network.safetensors"
    if not network.exists():
        raise ValueError(
            f"{path} is not the folder of a run that has ended: it has no network.safetensors"
        )
    return compress(read_state_dict(network))
