"""Reads a run's finished network as the plain data that a page shows."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open
from torch import Tensor

from sparsegate.export import MAX_WEIGHTS, for_browser
from sparsegate.files import Entry, Packed, compress, load, position_entropy
from sparsegate.web import BrowserNetwork
from sparsegate_lab.data import load_data
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, RunFolder, empty_network, finished_network

from ..network_view import NetworkView, TensorBits
from .pictures import filters_of, mask_of

NUM_EXAMPLES = 512  # images of which the samples are chosen


def view_network(folder: Path, record: Record) -> NetworkView:
    """Returns what the page says about the network in a run's folder; nothing if it is missing."""
    place = RunFolder(folder, Run.from_json(record.run))
    if not place.network.exists():
        return NetworkView(
            (), None, (), 0, {}, None, "The network's file is no longer next to the record."
        )
    packed = _packed(place)
    browser, why = _browser(record, packed)
    weights = {name: entry for name, entry in packed.entries.items() if len(entry.shape) >= 2}
    sizes = {path.name.removeprefix("network"): path.stat().st_size for path in place.packed}
    # A run that packed nothing would make this file.
    sizes = sizes or {".sparse.safetensors": packed.cost.total // 8}
    return NetworkView(
        masks=tuple(
            mask_of(name.removesuffix(".weight"), entry) for name, entry in weights.items()
        ),
        filters=filters_of(weights),
        bits=tuple(_bits(name, entry) for name, entry in packed.entries.items()),
        header=packed.cost.other,
        files={"dense": place.network.stat().st_size, **sizes},
        browser=browser,
        no_browser=why,
    )


def _packed(place: RunFolder) -> Packed:
    for path in place.packed:
        return load(path)
    with safe_open(finished_network(place.path), framework="pt") as file:
        state: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return compress(state)


def _bits(name: str, entry: Entry) -> TensorBits:
    cost, shape = entry.cost, entry.shape
    bound = position_entropy(entry.total, entry.kept)
    return TensorBits(
        name,
        shape,
        entry.format.name,
        entry.kept,
        cost.values,
        cost.indices,
        bound,
        8 * entry.num_bytes,
    )


def _browser(record: Record, packed: Packed) -> tuple[BrowserNetwork | None, str]:
    """Returns the network for use in the page, or why there is none."""
    if record.kept > MAX_WEIGHTS:
        words = (
            f"Networks of up to {MAX_WEIGHTS:,} weights run in their page; this one keeps "
            f"{record.kept:,}."
        )
        return None, words
    try:
        data = load_data(record.run["data"])
        model = empty_network(Run.from_json(record.run), data.num_classes)
        model.load_state_dict(packed.state_dict())
        example = data.normalise(data.train.images[:NUM_EXAMPLES])
        return for_browser(
            model, example=example, normalise=data.normalise, class_names=data.class_names
        ), ""
    except (ValueError, OSError, RuntimeError) as error:
        return None, f"This network does not run in its page: {error}."
