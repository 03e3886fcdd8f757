"""Reads a run's finished network as the plain data that a page shows."""

from __future__ import annotations

from math import ceil, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from torch import Tensor

from sparsegate.export import MAX_WEIGHTS, for_browser
from sparsegate.files import Entry, Packed, compress, load, position_entropy, unpack_tensor
from sparsegate.web import BrowserNetwork
from sparsegate_lab.data import load_data
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, RunFolder, empty_network, finished_network

from ..network_view import Filters, Mask, Mistakes, NetworkView, TensorBits
from .mistakes import mistakes_of

NUM_EXAMPLES = 512  # images of which the samples are chosen


def view_network(folder: Path, record: Record) -> NetworkView:
    """Returns what the page says about the network in a run's folder; nothing if it is missing."""
    place = RunFolder(folder, Run.from_json(record.run))
    if not place.network.exists():
        return NetworkView(
            (), None, (), 0, {}, None, "The network's file is no longer next to the record."
        )
    packed = _packed(place)
    browser, why, mistakes = _browser(record, packed)
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
        mistakes=mistakes,
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


def _browser(record: Record, packed: Packed) -> tuple[BrowserNetwork | None, str, Mistakes | None]:
    """Returns the network for use in the page, or why there is none, and its mistakes."""
    if record.kept > MAX_WEIGHTS:
        words = (
            f"Networks of up to {MAX_WEIGHTS:,} weights run in their page; this one keeps "
            f"{record.kept:,}."
        )
        return None, words, None
    mistakes = None
    try:
        data = load_data(record.run["data"])
        model = empty_network(Run.from_json(record.run), data.num_classes)
        model.load_state_dict(packed.state_dict())
        mistakes = mistakes_of(model, data)
        example = data.normalise(data.train.images[:NUM_EXAMPLES])
        browser = for_browser(
            model, example=example, normalise=data.normalise, class_names=data.class_names
        )
    except (ValueError, OSError, RuntimeError) as error:
        return None, f"This network does not run in its page: {error}.", mistakes
    return browser, "", mistakes


MAX_BITS = 2**19  # a larger mask is shown coarsely
MAX_DOTS = 2**14
MAX_FILTERS = 64


def mask_of(name: str, entry: Entry) -> Mask:
    """Returns the mask of a weight: a bit per element, or a byte per block of a large one."""
    rows, total = entry.shape[0], entry.total
    mask = entry.mask().reshape(rows, -1)
    columns = mask.shape[1]
    if total <= MAX_BITS:
        return Mask(
            name, rows, columns, entry.kept, total, np.packbits(mask, bitorder="little").tobytes()
        )
    block = ceil(sqrt(total / MAX_DOTS))
    return Mask(name, rows, columns, entry.kept, total, _coarse(mask, block).tobytes(), block)


def filters_of(weights: dict[str, Entry]) -> Filters | None:
    """Returns the first convolution's filters, channel by channel; nothing without one."""
    for name, entry in weights.items():
        if len(entry.shape) == 4 and min(entry.shape[2:]) > 1:
            height, width = entry.shape[2:]
            each = unpack_tensor(entry).float().reshape(-1, height * width)[:MAX_FILTERS]
            return Filters(
                name.removesuffix(".weight"), height, width, tuple(map(tuple, each.tolist()))
            )
    return None


def _coarse(mask: NDArray[np.bool_], block: int) -> NDArray[np.uint8]:
    """Returns how much of every block is kept, as a byte; 255 means all."""
    rows, columns = (ceil(size / block) for size in mask.shape)
    padded = np.zeros((rows * block, columns * block), np.bool_)
    padded[: mask.shape[0], : mask.shape[1]] = mask
    shares = padded.reshape(rows, block, columns, block).mean((1, 3))
    return np.asarray(255 * np.sqrt(shares / max(shares.max(), 1e-9)), np.uint8)
