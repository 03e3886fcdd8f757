"""Opens the folders of runs and the registered models for the library's verbs."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from sparsegate.cli import AccuracyCheck, ExampleInputs, Source, read_network
from sparsegate.files import Packed, compress, read_state_dict, tune_
from sparsegate.named_object import is_object_name
from sparsegate_lab.data import Storing, load_data
from sparsegate_lab.models import MODELS, find_model, make_model, matching_model
from sparsegate_lab.train import (
    Batches,
    Run,
    accuracy,
    augments_of,
    empty_network,
    finished_network,
    normaliser_of,
)
from sparsegate_runtime.checksum import without_checksum
from sparsegate_runtime.schema import load_json, parse

OTHER_FLOATS = dict.fromkeys(("F16", "BF16", "F64"), "F32")  # registered models are in float32
NUM_EXAMPLES = 512  # training images that show how large activations become


def open_source(path: Path, model: str | None, data: str | None) -> Source:
    """The network in a run's folder or in a file, with its registered model if it has one.

    Args:
        path: The folder of a run, or a file, which may lie in such a folder.
        model: The name of the model, which must agree with the run's.
        data: The name of the data; a run knows its own.

    """
    settings = _settings(path) or _settings(path.parent) or {}
    own = settings.get("model")
    if own is not None and model is not None and own != model:
        raise ValueError(f"{path} is a network of {own}, got --model {model}; leave it out")
    packed = _run_network(path) if path.is_dir() else read_network(path)
    check = functools.partial(RunCheck, path) if _settings(path) else None
    found = _registered(packed, model)
    if found is None:
        return Source(packed=packed, check=check, why_no_model=_unregistered())
    name, network = found
    return Source(
        packed=packed,
        name=name,
        model=network,
        input_shape=network.image_shape,  # type: ignore[arg-type]
        inputs=functools.partial(_inputs, name, data or settings.get("data", "mnist")),
        check=check,
    )


class RunCheck(AccuracyCheck):
    """Tries variants of a run's network on the run's data."""

    def __init__(self, folder: Path) -> None:
        self._run = run = load_json(folder / "run.json", Run.from_json)
        self._data = load_data(run.data, Storing(run.stored_size, run.bad_images))
        self._view = normaliser_of(run, self._data)

    def accuracies(self, state: dict[str, Tensor]) -> str:
        """Validation and test accuracy, in words."""
        model, accelerator = self._model(state), Accelerator(cpu=True)
        validation, test = (
            accuracy(model, split, self._view, accelerator)
            for split in (self._data.validation, self._data.test)
        )
        return f"validation {validation:.2f} %, test {test:.2f} %"

    def tuned(
        self,
        state: dict[str, Tensor],
        epochs: int,
        *,
        per: Literal["layer", "network"],
        origin: dict[str, Tensor],
    ) -> dict[str, Tensor]:
        """The tensors after training their shared values on the run's training images."""
        run, model = self._run, self._model(state)
        batches = Batches(self._data.train, self._view, augments_of(run), run.batch_size, run.seed)
        passes = (batches.epoch(number) for number in range(epochs))
        steps = (epoch[index] for epoch in passes for index in range(len(batches)))
        tune_(model, steps, per=per, origin=self._model(origin), num_batches=epochs * len(batches))
        return model.state_dict()

    def _model(self, state: dict[str, Tensor]) -> nn.Module:
        model = empty_network(self._run, self._data.num_classes)
        model.load_state_dict(state)
        return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _inputs(model: str, data: str) -> ExampleInputs:
    """Training images of the data, which must have the shape that the model takes."""
    dataset, shape = load_data(data), find_model(model).image_shape  # type: ignore[attr-defined]
    if shape != dataset.image_shape:
        raise ValueError(
            f"{model} takes images of {shape}, and {data} has {dataset.image_shape}; "
            "name the network's own data with --data"
        )
    images = dataset.train.images[:NUM_EXAMPLES]
    return ExampleInputs(dataset.normalise(images), dataset.normalise)


def _settings(path: Path) -> dict[str, Any] | None:
    """The settings of the run in a folder, or None if it is not the folder of a run."""
    file = path / "run.json"
    return load_json(file, _described) if file.exists() else None


def _described(value: Any) -> dict[str, Any]:
    """The settings that a file holds, of this version or an earlier one."""
    settings: dict[str, Any] = parse(dict[str, Any], without_checksum(value))
    for name in ("model", "data"):
        parse(str, settings.get(name, ""), name)
    return settings


def _run_network(folder: Path) -> Packed:
    return compress(read_state_dict(finished_network(folder)))


def _registered(packed: Packed, name: str | None) -> tuple[str, nn.Module] | None:
    """The registered model with the packed tensors in it, after its name; None if there is none."""
    entries = {key: packed.entries[packed.same.get(key, key)] for key in packed}
    if name is not None and is_object_name(name):
        return name, packed.into(make_model(name, num_classes=_num_classes(packed, name)))
    found = matching_model(
        {
            key: (OTHER_FLOATS.get(entry.dtype, entry.dtype), entry.shape)
            for key, entry in entries.items()
        }
    )
    if name is not None and (found is None or found[0] != name):
        MODELS[name]  # raises for an unknown name
        raise ValueError(
            f"the tensors are not those of {name}" + (f", but of {found[0]}" if found else "")
        )
    return (found[0], packed.into(make_model(found[0], num_classes=found[1]))) if found else None


def _num_classes(packed: Packed, name: str) -> int:
    """The number of classes of a network: the size of its last tensor."""
    shapes = [packed.entries[packed.same.get(key, key)].shape for key in packed]
    if not shapes or not shapes[-1]:
        raise ValueError(f"the tensors are not those of {name}")
    return int(shapes[-1][0])


def _unregistered() -> str:
    return f"its tensors are not those of a registered model ({', '.join(MODELS)})"
