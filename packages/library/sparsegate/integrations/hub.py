"""Shares networks on the Hugging Face hub: a small file, the graph, and a model card."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from torch import nn

from sparsegate.export import to_onnx
from sparsegate.files import Packed, compress, load
from sparsegate.graph import Example
from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.version import VERSION

from .hub_file import hub_file, huggingface_hub

FILE, GRAPH, CONFIG, CARD, RECORD = (
    "model.sg",
    "model.onnx",
    "config.json",
    "README.md",
    "record.json",
)
"""The files in a repository."""
LIBRARY = "sparsegate"


def push_to_hub(
    model: nn.Module,
    repo_id: str,
    *,
    example: Example | None = None,
    record: Path | str | dict[str, Any] | None = None,
    speed: Path | str | dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    license: str | None = None,  # noqa: A002
    commit_message: str = "Add a sparse network",
    private: bool | None = None,
    token: str | None = None,
    branch: str | None = None,
    create_pr: bool | None = None,
    endpoint: str | None = None,
) -> str:
    """Uploads a finished model to a repository of the Hugging Face hub, which is made if necessary.

        sg.push_to_hub(model, "me/lenet5-300x", record="runs/NAME/record.json")

    The repository gets `model.sg`, `config.json`, and a model card with the layers, the size, the
    accuracy and the speed, as far as records of them are given.

    Args:
        model: The model, without gates.
        repo_id: The repository, `OWNER/NAME`.
        example: An input of the model. If given, `model.onnx` is uploaded too: the graph with the
            weights, for programs without PyTorch.
        record: The record of a run: its folder, its record.json, or the value of that file. It is
            uploaded, too.
        speed: What `sparsegate bench --out` wrote, or the value of that file.
        config: Settings of the model for config.json.
        license: The license of the weights, such as mit, for the card.
        commit_message: The message of the commit.
        private: Whether a new repository is private.
        token: Your token; the default is that of `hf auth login`.
        branch: The branch; the default is main.
        create_pr: Whether to open a pull request.
        endpoint: The address of the hub; the default is that of `huggingface_hub`.

    Returns:
        The address of the commit, or of the pull request.

    Raises:
        ValueError: huggingface_hub is missing, the model has gates, or a record is unreadable.

    """
    hub = huggingface_hub()
    api = hub.HfApi(endpoint, token=token, library_name=LIBRARY, library_version=VERSION)
    with tempfile.TemporaryDirectory() as folder:
        save_for_hub(
            model,
            folder,
            repo_id=repo_id,
            example=example,
            record=record,
            speed=speed,
            config=config,
            license=license,
        )
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        done = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=commit_message,
            revision=branch,
            create_pr=create_pr,
        )
    return str(done.pr_url or done.commit_url)


def from_hub(
    repo_id: str | Path,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    force_download: bool = False,
    local_files_only: bool = False,
    token: str | bool | None = None,
    endpoint: str | None = None,
    limit: int | None = None,
) -> Packed:
    """Downloads a network from the Hugging Face hub, or opens one in a local folder.

        model = sg.from_hub("me/lenet5-300x").into(LeNet5())

    Only `model.sg` is read, which contains no code; it is checked in every detail.

    Args:
        repo_id: The repository, `OWNER/NAME`, or a folder with the same files.
        revision: A branch, tag or commit; the default is main.
        cache_dir: The folder of downloads; the default is that of `huggingface_hub`.
        force_download: Whether to download a file again that is in the cache.
        local_files_only: Whether to use the cache only.
        token: Your token; the default is that of `hf auth login`.
        endpoint: The address of the hub; the default is that of `huggingface_hub`.
        limit: The most bytes of dense tensors, as in `sparsegate.load`.

    Raises:
        ValueError: huggingface_hub is missing, or the repository has no network of sparsegate.

    """
    if Path(repo_id).is_dir():
        path = Path(repo_id) / FILE
        if not path.is_file():
            raise ValueError(_no_network(repo_id))
        return load(path, limit=limit)
    hub = huggingface_hub()
    try:
        path = hub_file(
            str(repo_id),
            FILE,
            revision=revision,
            cache_dir=cache_dir,
            force_download=force_download,
            local_files_only=local_files_only,
            token=token,
            endpoint=endpoint,
            library_name=LIBRARY,
            library_version=VERSION,
        )
    except hub.errors.LocalEntryNotFoundError:  # also an EntryNotFoundError
        raise
    except hub.errors.EntryNotFoundError as error:
        raise ValueError(_no_network(repo_id)) from error
    return load(path, limit=limit)


def save_for_hub(
    model: nn.Module,
    folder: Path | str,
    *,
    repo_id: str = "",
    example: Example | None = None,
    record: Path | str | dict[str, Any] | None = None,
    speed: Path | str | dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    license: str | None = None,  # noqa: A002
) -> None:
    """Writes the files that `push_to_hub` uploads into a folder; `from_hub` opens it.

    Args:
        model: the model, without gates.
        folder: the folder, which is made if necessary.
        repo_id: the repository, for the card; the name of the folder unless given.
        example: as in `push_to_hub`.
        record: as in `push_to_hub`.
        speed: as in `push_to_hub`.
        config: as in `push_to_hub`.
        license: as in `push_to_hub`.
    """
    from .model_card import Records, card_text  # with bench, a quarter of the package's import

    huggingface_hub()
    folder = Path(folder)
    records, packed = Records.read(record, speed), compress(model)
    folder.mkdir(parents=True, exist_ok=True)
    packed.save(folder / FILE)
    if example is not None:
        to_onnx(model, folder / GRAPH, example)
    if records.run:
        _save_json(folder / RECORD, records.run)
    about = {"library_name": LIBRARY, "sparsegate_version": VERSION, "file": FILE}
    _save_json(folder / CONFIG, {**about, **(config or {})})
    sizes = {
        name: (folder / name).stat().st_size for name in (FILE, GRAPH) if (folder / name).exists()
    }
    text = card_text(packed, repo_id or folder.name, records=records, sizes=sizes, license=license)
    write_atomically(folder / CARD, text.encode())


def _save_json(path: Path, value: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(value, indent=1) + "\n").encode())


def _no_network(repo_id: str | Path) -> str:
    return (
        f"{repo_id} has no {FILE}: sg.push_to_hub did not write it; load its files as the library "
        "that made them says, then call sg.compress"
    )
