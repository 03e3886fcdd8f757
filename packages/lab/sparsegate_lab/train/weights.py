"""Reads initial weights from a file, the folder of a run, or the Hugging Face hub."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from sparsegate.files import load, read_state_dict
from sparsegate_lab.record import Record

HUB = "hf://"
PACKED = (".sparse.safetensors", ".sg")
"""Suffixes of packed files."""
BLOCK = 2**22


def read_weights(source: str) -> dict[str, Tensor]:
    """The tensors by name."""
    path = weights_file(source)
    return load(path).state_dict() if path.name.endswith(PACKED) else read_state_dict(path)


def weights_file(source: str) -> Path:
    """The file of a path, of the folder of a run, or of `hf://OWNER/NAME/FILE`."""
    if source.startswith(HUB):
        return _downloaded(source)
    path = Path(source)
    if path.is_dir():
        return finished_network(path)
    if not path.is_file():
        raise ValueError(
            f"there are no weights at {source}; give a .pth or .safetensors file, or the folder of "
            "a run"
        )
    return path


def finished_network(folder: Path) -> Path:
    """The file of an ended run's network, which must be the one that the run's record tells of."""
    network, record = folder / "network.safetensors", folder / "record.json"
    if not network.exists():
        raise ValueError(
            f"{folder} is not the folder of a run that has ended: it has no network.safetensors"
        )
    if record.exists():
        check_recorded(network, Record.load(record))
    return network


def check_recorded(network: Path, record: Record) -> None:
    """Raises unless the file of a network is the one that was hashed for the record."""
    if record.content and content_hash(str(network)) != record.content:
        raise ValueError(
            f"{network} does not match its hash in record.json: it was damaged or replaced; "
            f"restore it, or delete {network.parent} to train again"
        )


def content_hash(source: str) -> str:
    """A hash of the file's content, part of a run's name: equal copies make the same run."""
    path = weights_file(source)
    about = path.stat()
    return _hash(path, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=16)
def _hash(path: Path, size: int, changed: int) -> str:  # noqa: ARG001 (a changed file is read again)
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


@lru_cache(maxsize=16)
def _downloaded(source: str) -> Path:
    """The file in the local cache of the hub, downloaded if necessary."""
    owner, _, rest = source.removeprefix(HUB).partition("/")
    name, _, file = rest.partition("/")
    if not (owner and name and file):
        raise ValueError(f"a file of the hub is hf://OWNER/NAME/FILE, got {source}")
    from sparsegate.integrations import hub_file  # with export, slow to import

    name, _, revision = name.partition("@")
    try:
        return hub_file(f"{owner}/{name}", file, revision=revision or None)
    except Exception as error:  # the hub's own errors, and those of the network under it
        raise ValueError(f"{source} cannot be fetched: {str(error).splitlines()[0]}") from error
