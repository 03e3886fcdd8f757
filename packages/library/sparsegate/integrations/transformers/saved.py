"""Writes a finished model as transformers does, with a sparse file next to it."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn

from sparsegate.files import compress, load
from sparsegate.gates import finish, gates
from sparsegate_runtime.atomic import write_atomically

from ..gated_state import finished_state

SPARSE_FILE = "model.sparse.safetensors"
METHOD = "sparsegate"


def save_pretrained(
    model: nn.Module, folder: str | os.PathLike[str], *, dense: bool = True, **options: Any
) -> Path:
    """Saves a model of transformers as an ordinary one, and as a sparse file next to it.

    Args:
        model: A model of transformers; one with gates is saved as it would be finished now, and
            keeps its gates.
        folder: Where to save it.
        dense: Whether to write the ordinary `model.safetensors`, which `from_pretrained` reads
            everywhere. Without it, the folder is small, and `from_pretrained` reads it after
            `import sparsegate.integrations.transformers`.
        **options: What `model.save_pretrained` takes.

    Returns:
        The path of the sparse file.
    """
    folder = Path(folder)
    plain = finish(copy.deepcopy(model)) if gates(model) else model
    plain.save_pretrained(folder, **options)  # type: ignore[operator]
    path = folder / SPARSE_FILE
    compress(read_dense(_weight_files(folder))).save(path)
    if not dense:
        for each in (*_weight_files(folder), *folder.glob("*.safetensors.index.json")):
            each.unlink()
        mark(folder, holds="sparse file", transformers_weights=SPARSE_FILE)
    return path


def mark(folder: Path, *, holds: str, **entries: str) -> None:
    """Writes into a saved configuration how `from_pretrained` finds the finished weights."""
    path = folder / "config.json"
    if not path.is_file():  # not a model of transformers
        return
    config = json.loads(path.read_text())
    config |= {"quantization_config": {"quant_method": METHOD, "holds": holds}, **entries}
    write_atomically(path, (json.dumps(config, indent=2, sort_keys=True) + "\n").encode())


def read_dense(files: list[Path]) -> dict[str, Tensor]:
    """All tensors of some safetensors files."""
    return {name: value for path in files for name, value in load_file(path).items()}


def finished_weights(files: list[Path], *, holds: str) -> dict[str, Tensor]:
    """The weights that a sparse file or a checkpoint with gates stands for, by ordinary names."""
    if holds == "gates":
        found = finished_state(read_dense(files))
        return {name: value.contiguous() for name, value in found.items()}
    (path,) = files
    packed = load(path)
    state = packed.state_dict()
    return {name: state[name] for name in packed.entries}  # transformers ties the others


def _weight_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("model*.safetensors")) if path.name != SPARSE_FILE]
