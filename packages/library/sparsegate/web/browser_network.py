"""A small network as plain data, for a browser to run."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BrowserNetwork:
    """A chain of layers whose tensors lie in the bytes of a .sparse.safetensors file."""

    layers: tuple[dict[str, Any], ...]
    """Kind and settings of each layer; layer 3 has the tensors `3.weight` and `3.bias`."""
    file: bytes
    """The .sparse.safetensors file."""
    image: tuple[int, int, int]
    """Channels, height and width."""
    mean: float
    """What is subtracted from an image's bytes."""
    spread: float
    """What they are divided by."""
    samples: tuple[bytes, ...]
    """Some images in bytes, to try it on."""
    num_weights: int
    """Weights that are not zero."""
    class_names: tuple[str, ...] = ()
    """What each output stands for; empty if the outputs have numbers only."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each output, or its number."""
        return self.class_names or tuple(map(str, range(self.num_classes)))

    @property
    def num_classes(self) -> int:
        """Numbers that the network answers with."""
        return int(self.layers[-1]["outputs"])

    def to_json(self) -> dict[str, Any]:
        """Plain values, bytes as base64."""
        return {
            "layers": list(self.layers),
            "file": base64.b64encode(self.file).decode(),
            "image": list(self.image),
            "mean": self.mean,
            "spread": self.spread,
            "samples": [base64.b64encode(each).decode() for each in self.samples],
        }
