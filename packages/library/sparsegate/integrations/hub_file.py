"""Downloads one file of the Hugging Face hub, or says at once that there is no network."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

MISSING = (
    "the hub needs the package huggingface_hub, which is not installed; "
    "pip install 'sparsegate[hub]'"
)


def hub_file(repo_id: str, name: str, **options: Any) -> Path:
    """The file in the local cache, downloaded if necessary.

    Without a network, huggingface_hub tries again for half a minute. We look up its address first,
    and use only the cache if there is none.

    Args:
        repo_id: The repository, `OWNER/NAME`.
        name: The file's name.
        options: Arguments of `huggingface_hub.hf_hub_download`.

    Raises:
        ValueError: huggingface_hub is missing, or the file is not in the cache and the hub's
            address is unknown. Other errors are those of huggingface_hub.

    """
    hub = huggingface_hub()
    host = urlsplit(options.get("endpoint") or hub.constants.ENDPOINT).hostname or ""
    if options.get("local_files_only") or _has_address(host):
        return Path(hub.hf_hub_download(repo_id, name, **options))
    try:
        return Path(hub.hf_hub_download(repo_id, name, **{**options, "local_files_only": True}))
    except hub.errors.LocalEntryNotFoundError as error:
        raise ValueError(
            f"{name} of {repo_id} is not in the local cache, and {host} has no address: is there "
            "a network connection?"
        ) from error


def huggingface_hub() -> Any:
    """The package, or an error that says how to install it."""
    try:
        import huggingface_hub as hub
        import huggingface_hub.constants
        import huggingface_hub.errors
    except ImportError as error:
        raise ValueError(MISSING) from error
    return hub


def _has_address(host: str) -> bool:
    """Whether a host's name is known here; a proxy may know more names."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True
