"""A network from whatever a user points at: our files, a run's folder, safetensors, a state dict of torch."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from sparsegate.compress import Packed, compress, load

OURS = (".sparse.safetensors", ".sg")


def open_network(path: Path) -> Packed:
    """The network in a file or a run's folder; nothing in it is executed."""
    if path.is_dir():
        return _from_run(path)
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}")
    if path.name.endswith(OURS):
        return load(path)
    if path.suffix == ".safetensors":
        return compress(_safetensors(path))
    return compress(_state_dict(path))


def run_of(path: Path) -> dict[str, Any] | None:
    """The settings of the run in a folder, if it is one."""
    about = path / "run.json"
    settings: dict[str, Any] | None = json.loads(about.read_text()) if about.exists() else None
    return settings


def _from_run(path: Path) -> Packed:
    network = path / "network.safetensors"
    if not network.exists():
        raise ValueError(f"{path} is not the folder of a run that has ended: it has no network.safetensors")
    return compress(_safetensors(network))


def _safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file, or is damaged: {error}") from error


def _state_dict(path: Path) -> dict[str, Tensor]:
    try:
        value = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{path} is not a state dict that can be loaded safely: {str(error).splitlines()[0]}"
        ) from error
    value = value.get("state_dict", value) if isinstance(value, dict) else value
    if not isinstance(value, dict) or not all(isinstance(each, Tensor) for each in value.values()):
        raise ValueError(f"{path} holds no state dict of tensors")
    return value
