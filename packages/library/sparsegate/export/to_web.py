"""`to_web`: writes a small network as a page that runs it on drawings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.files import compress, encode_safetensors
from sparsegate.web import BrowserNetwork, try_it_document
from sparsegate_runtime.atomic import write_atomically

from .c.code import MAX_WEIGHTS
from .exporter import ExportResult
from .layer import ConvLayer, Layer, LinearLayer, PoolLayer, num_weights
from .normalise import UNIT_RANGE, Normalise
from .read import LayerList, as_images, read_network

MAX_SAMPLES = 10


def to_web(
    model: nn.Module,
    path: str | Path,
    *,
    example: Tensor,
    max_weights: int = MAX_WEIGHTS,
    normalise: Normalise = UNIT_RANGE,
) -> ExportResult:
    """Writes a small network as one HTML file that runs it on drawings, without a server.

    >>> import tempfile, torch
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(16, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = to_web(model, Path(folder) / "tiny.html", example=torch.zeros(1, 1, 4, 4))
    >>> [file.name for file in written.files], written.num_weights
    (['tiny.html'], 160)

    Args:
        model: a chain of layers that takes images of one channel.
        path: the page, `NAME.html`.
        example: a batch of images; the page shows the first of each class.
        max_weights: refuse a model with more weights that are not zero.
        normalise: how the page turns the bytes of an image into the model's input.

    """
    path = Path(path)
    if path.suffix != ".html":
        raise ValueError(
            f"expected a path that ends in .html, got {path.name!r}; "
            f"write '{path.stem or 'page'}.html'"
        )
    network = for_browser(model, example=example, max_weights=max_weights, normalise=normalise)
    content = try_it_document(network, path.stem).encode()
    write_atomically(path, content)
    return ExportResult(
        (path,), len(content), network.num_weights, f"open {path} in a browser; it needs no network"
    )


@torch.no_grad()
def for_browser(
    model: nn.Module,
    *,
    example: Tensor,
    max_weights: int = MAX_WEIGHTS,
    normalise: Normalise = UNIT_RANGE,
    class_names: tuple[str, ...] = (),
) -> BrowserNetwork:
    """A network as data for JavaScript; the first example of each class becomes a sample to try.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    >>> for_browser(model, example=torch.zeros(1, 1, 2, 2)).num_weights
    12
    """
    if example.ndim != 4 or example.shape[1] != 1:
        raise ValueError(
            "expected an example of shape (images, 1, height, width), as a person draws images of "
            f"one channel, got {tuple(example.shape)}"
        )
    network = read_network(model, example)
    found = num_weights(network.layers)
    if max_weights < 1:
        raise ValueError(f"max_weights is a number of weights, at least 1, got {max_weights}")
    if found > max_weights:
        raise ValueError(
            f"expected at most {max_weights:,} weights that are not zero, got {found:,}; "
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


def _described(network: LayerList) -> tuple[dict[str, Any], ...]:
    """The kind, settings and output size of each layer."""
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
    if isinstance(layer, LinearLayer):
        return {"kind": "linear"}
    shared = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
    if isinstance(layer, ConvLayer):
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
        str(index): layer for index, layer in enumerate(layers) if not isinstance(layer, PoolLayer)
    }
    tensors = {f"{index}.weight": layer.weight.float() for index, layer in weighted.items()}
    tensors |= {f"{index}.bias": layer.bias.float() for index, layer in weighted.items()}
    packed = compress(tensors)
    return encode_safetensors(packed.entries, packed.same)


def _samples(model: nn.Module, example: Tensor, normalise: Normalise) -> tuple[bytes, ...]:
    """The first image of each predicted class, as bytes."""
    model = model.eval()
    classes = model(example).flatten(1).argmax(1).tolist()
    first = {label: index for index, label in reversed(list(enumerate(classes)))}
    images = (
        (example * _only(normalise.spread) + _only(normalise.mean))
        .round()
        .clamp(0, 255)
        .to(torch.uint8)
    )
    return tuple(images[first[label]].numpy().tobytes() for label in sorted(first)[:MAX_SAMPLES])


def _only(value: float | tuple[float, ...]) -> float:
    """The number for the only channel."""
    return value[0] if isinstance(value, tuple) else value
