"""A small network as data that a browser runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.files import compress, encode_safetensors
from sparsegate.web import BrowserNetwork

from .code import BYTES, MAX_WEIGHTS
from .layer import Conv, Layer, Linear, Pool, num_weights
from .normalise import Normalise
from .read import Network, as_images, read_network

MAX_SAMPLES = 10


@torch.no_grad()
def for_browser(
    model: nn.Module,
    *,
    example: Tensor,
    max_weights: int = MAX_WEIGHTS,
    normalise: Normalise = BYTES,
    class_names: tuple[str, ...] = (),
) -> BrowserNetwork:
    """The network for images that one can draw, of one channel; some of the example become samples to try.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    >>> for_browser(model, example=torch.zeros(1, 1, 2, 2)).num_weights
    12
    """
    if example.ndim != 4 or example.shape[1] != 1:
        raise ValueError(
            "only networks that take images of one channel can be drawn for: image x 1 x height x width, "
            f"got an example of shape {tuple(example.shape)}"
        )
    network = read_network(model, example)
    found = num_weights(network.layers)
    if found > max_weights:
        raise ValueError(
            f"{found:,} weights survive, and a page is made of at most {max_weights:,}; "
            "prune further, or raise max_weights"
        )
    return BrowserNetwork(
        layers=_described(network),
        file=_file(network.layers),
        image=(1, *example.shape[2:]),
        mean=_only(normalise.mean),
        spread=_only(normalise.spread),
        samples=_samples(model, example, normalise),
        num_weights=found,
        class_names=class_names,
    )


def _described(network: Network) -> tuple[dict[str, Any], ...]:
    """Kind and settings of every layer, with the number of its outputs."""
    value, found = as_images(torch.zeros(1, *network.image).double()), []
    for layer in network.layers:
        value = layer.run(value)
        found.append(
            {
                **_settings(layer),
                "relu": layer.relu,
                "outputs": value.shape[1],
                "size": list(value.shape[2:]),
            }
        )
    return tuple(found)


def _settings(layer: Layer) -> dict[str, Any]:
    if isinstance(layer, Linear):
        return {"kind": "linear"}
    shared = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
    if isinstance(layer, Conv):
        return {"kind": "conv", **shared, "groups": layer.groups, "tile": layer.tile}
    return {
        "kind": "pool",
        **shared,
        "pool": layer.kind,
        "kernel": layer.kernel,
        "counts_padding": layer.counts_padding,
    }


def _file(layers: list[Layer]) -> bytes:
    weighted = {
        str(place): layer for place, layer in enumerate(layers) if not isinstance(layer, Pool)
    }
    tensors = {f"{place}.weight": layer.weight.float() for place, layer in weighted.items()}
    tensors |= {f"{place}.bias": layer.bias.float() for place, layer in weighted.items()}
    packed = compress(tensors)
    return encode_safetensors(packed.entries, packed.same)


def _samples(model: nn.Module, example: Tensor, normalise: Normalise) -> tuple[bytes, ...]:
    """The first image of every answer, as bytes."""
    model = model.eval()
    answers = model(example).flatten(1).argmax(1).tolist()
    first = {answer: place for place, answer in reversed(list(enumerate(answers)))}
    images = (
        (example * _only(normalise.spread) + _only(normalise.mean))
        .round()
        .clamp(0, 255)
        .to(torch.uint8)
    )
    return tuple(images[first[answer]].numpy().tobytes() for answer in sorted(first)[:MAX_SAMPLES])


def _only(value: float | tuple[float, ...]) -> float:
    """The number of the only colour."""
    return value[0] if isinstance(value, tuple) else value
